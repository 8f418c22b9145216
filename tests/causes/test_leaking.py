"""Leaks of recorded steps, and what they are worth."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import alternating, seen

from lossleuth.causes import leaking
from lossleuth.findings.data import Alignment
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Leaks
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status
from lossleuth.types.observed import Step

LEAKS = Leaks(
    *(0.3, 0.2, None, None),
    places=("a.py:1",),
    batch_places=("a.py:2",),
    floor=1e-12,
    future_harm=0.5,
    batch_harm=0.4,
    batch_noise=0.02,
)
NEXT = Alignment(1, {}, supervised=8, targets=8)


def test_leaks_are_read_from_recorded_steps_that_show_them() -> None:
    unknown = replace(LEAKS, future=math.nan, batch=None)
    evidence = alternating([LEAKS, NEXT], [unknown, NEXT], [LEAKS])
    future, rows = leaking.future_leaks(evidence), leaking.row_leaks(evidence)
    shown = leaking.Leak(0.3, 1e-12, ("a.py:1",), offset=1, harm=0.5)
    assert future == [shown, shown._replace(offset=None)]
    assert rows == [leaking.Leak(0.2, 1e-12, ("a.py:2",), harm=0.4, noise=0.02)] * 2
    missing = seen(replace(LEAKS, untested="no rows"))
    assert leaking.future_leaks(missing) == leaking.row_leaks(missing) == []


def test_a_leak_is_always_there_where_every_recorded_step_shows_it() -> None:
    moved, still = leaking.Leak(0.3, 1e-12, ()), leaking.Leak(1e-13, 1e-12, ())
    assert leaking.leaks_always([moved, moved])
    assert not leaking.leaks_always([moved, still])
    assert not leaking.leaks_always([])


@pytest.mark.parametrize(
    ("offsets", "is_next"), [((None, 1), True), ((2,), True), ((0, None, -1), False), ((), False)]
)
def test_later_tokens_are_asked_for_where_any_step_does(
    offsets: tuple[int | None, ...], is_next: bool
) -> None:
    leaks = [leaking.Leak(0.3, 1e-12, (), offset) for offset in offsets]
    assert leaking.asks_for_next(leaks) is is_next


def losses(*values: float) -> Evidence:
    return alternating(*([TrueLoss(value, 8, 30, 1.0)] for value in values))


LEARNT, IDLE = losses(3.0, 2.0), losses(3.0, 2.95)


def judged(evidence: Evidence, *leaks: leaking.Leak) -> Judgement:
    return leaking.judge_leaks(evidence, leaks, "changing x moves y", "0 is right", "Mask it.")


def leak(move: float = 0.3, harm: float | None = 0.5) -> leaking.Leak:
    return leaking.Leak(move, 1e-12, ("a.py:1",), 1, harm)


@pytest.mark.parametrize(
    ("evidence", "harm", "status"),
    [
        (LEARNT, 0.5, Status.PROVEN),
        (IDLE, 0.5, Status.PROVEN),
        (LEARNT, 0.001, Status.BENIGN),
        (LEARNT, -0.2, Status.BENIGN),
        # Nothing has been learnt that could make use of it.
        (IDLE, 0.001, Status.SUSPECTED),
        (LEARNT, None, Status.SUSPECTED),
    ],
)
def test_a_leak_is_what_its_harm_makes_it(
    evidence: Evidence, harm: float | None, status: Status
) -> None:
    found = judged(evidence, leak(harm=harm), leak(harm=harm))
    assert found.status is status
    assert "by 0.3 of" in found.because and "all of 2" in found.because
    assert ("nats" in found.because) == (harm is not None)


def test_a_leak_that_begins_late_is_proven_by_its_harm_alone() -> None:
    found = judged(LEARNT, leak(0.0, None), leak(0.0, None), leak(0.4, 0.3))
    assert found.status is Status.PROVEN and "on 1 of 3 recorded steps" in found.because
    harmless = judged(LEARNT, leak(0.0, None), leak(0.4, 0.003))
    assert harmless.status is Status.REFUTED and "1 of 2" in harmless.because


@pytest.mark.parametrize(
    ("noise", "status", "words"),
    [
        (0.3, Status.PROVEN, "averaged over other neighbours, predictions are 0.3 nats better"),
        (0.005, Status.BENIGN, "a position loses 0.001 nats"),
    ],
)
def test_neighbours_that_are_only_noise_do_harm_too(
    noise: float, status: Status, words: str
) -> None:
    found = judged(LEARNT, leaking.Leak(0.3, 1e-12, ("a.py:1",), harm=0.001, noise=noise))
    assert found.status is status and words in found.because


def test_nothing_that_moves_is_no_leak() -> None:
    found = judged(LEARNT, leak(0.0, None), leak(1e-13, None))
    assert found.status is Status.REFUTED and "1.0e-13" in found.because


def test_a_run_has_learnt_when_its_true_loss_has_fallen() -> None:
    assert leaking.has_learnt(LEARNT)
    assert not leaking.has_learnt(IDLE)
    assert not leaking.has_learnt(Evidence())


@pytest.mark.parametrize(("entropy", "learnt"), [(9.0, True), (0.5, False)])
def test_frequencies_alone_are_learnt_without_any_leak(entropy: float, learnt: bool) -> None:
    """What has come no further than the entropy of single tokens makes no use of others."""
    run = replace(LEARNT, steps=[Step(0, unigram=entropy)])
    assert leaking.has_learnt(run) is learnt


@pytest.mark.parametrize(
    ("offsets", "asked"), [(None, True), ((1,), True), ((), False), ((0,), False)]
)
def test_the_loss_that_leaks_is_asked_for_what_its_targets_are(
    offsets: tuple[int, ...] | None, *, asked: bool
) -> None:
    """Beside it there may be another, whose targets are the next tokens."""
    found = leaking.future_leaks(seen(replace(LEAKS, offsets=offsets), NEXT))
    assert leaking.asks_for_next(found) is asked


def test_a_move_that_float32_rounds_away_is_no_leak_unless_it_does_harm() -> None:
    below, above = float(leaking.MIN_MOVE) / 2, float(leaking.MIN_MOVE) * 2
    assert not leaking.Leak(below, 1e-12, (), harm=0.0).is_there
    assert not leaking.Leak(below, 1e-12, ()).is_there
    assert leaking.Leak(below, 1e-12, (), harm=0.5).is_there
    assert leaking.Leak(above, 1e-12, (), harm=0.0).is_there
    assert not leaking.Leak(above, above, (), harm=0.5).is_there
