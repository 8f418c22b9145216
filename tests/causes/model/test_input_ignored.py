"""Outputs that do not depend on the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen, steps

from lossleuth.causes.model.input_ignored import CAUSE, judge
from lossleuth.findings.data import Alignment
from lossleuth.findings.finding import Finding
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Leaks, OtherInput
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where


def moved(
    own: float | None,
    spread: float | None = 1.0,
    order: float = 0.0,
    lost_places: tuple[str, ...] = (),
) -> list[Finding]:
    leaks = Leaks(None, None, own, order, lost_places=lost_places, floor=1e-12)
    return [leaks, TrueLoss(3.0, 512, 96, logits_std=spread)]


def looked_up(tokens: int, targets: int) -> Alignment:
    return Alignment(1, {}, 512, 512, distinct_tokens=tokens, distinct_targets=targets)


def test_logits_that_no_token_moves_are_proven() -> None:
    fault = seen(*moved(0.0), steps=steps(4, unigram=3.01))
    check_proven(judge(fault), LOSS, "0.0e+00", "all of 3", "3.000", "3.010")


def test_the_place_where_the_input_is_lost_is_named() -> None:
    fault = seen(*moved(0.0, lost_places=("model.py:12",)))
    check_proven(judge(fault), Where("model.py", 12))


def test_a_loss_that_is_no_cross_entropy_hides_nothing() -> None:
    own = Leaks(None, None, 0.0, 0.0, floor=1e-12, spread=1.0)
    assert judge(seen(own)).status is Status.PROVEN
    check_untested(judge(seen(replace(own, spread=None))), "spread")


def test_the_entropy_of_single_tokens_is_given_only_where_it_is_known() -> None:
    judgement = judge(alternating(moved(0.0), moved(1e-13)))
    check_proven(judgement, LOSS, "1.0e-13")
    assert "entropy" not in judgement.because


def test_one_token_for_all_targets_is_proven_whatever_it_moves() -> None:
    check_proven(judge(seen(*moved(2.0), looked_up(1, 60))), LOSS, "60 different")
    check_proven(CAUSE.judged(seen(looked_up(1, 60))), LOSS, "60 different")


@pytest.mark.parametrize(
    "found",
    [
        moved(1.7),
        moved(0.0, order=0.3),
        [*moved(1.7), looked_up(1, 3)],
        [*moved(1.7), looked_up(50, 60)],
    ],
    ids=["own token", "earlier tokens", "a text of one token", "a text"],
)
def test_logits_that_follow_the_tokens_are_sound(found: Sequence[Finding]) -> None:
    check_refuted(judge(seen(*found)), "expected above 0")


def test_an_input_that_matters_on_some_steps_is_not_ignored() -> None:
    check_refuted(judge(alternating(moved(0.0), moved(1.7))), "1.7")


@pytest.mark.parametrize("spread", [0.0, None], ids=["a dead network", "unknown"])
def test_logits_that_are_all_equal_show_nothing_of_the_input(spread: float | None) -> None:
    check_untested(judge(seen(*moved(0.0, spread))), "from class to class")


def test_without_logits_it_is_untested_with_the_reason() -> None:
    check_untested(CAUSE.judged(Evidence()), "no step was recorded")
    unknown = Leaks(None, None, None, None, untested="no rows")
    check_untested(CAUSE.judged(seen(unknown)), "no rows")
    check_untested(CAUSE.judged(seen(*moved(None))), "leaks could not be measured")


def test_a_part_that_gets_one_token_on_every_step_is_suspected() -> None:
    leaks, *rest = moved(1.7)
    assert isinstance(leaks, Leaks)
    fed = [replace(leaks, constant_places=("model.py:7",)), *rest]
    judgement = judge(seen(*fed))
    assert judgement.status is Status.SUSPECTED
    assert judgement.where == Where("model.py", 7)
    assert "all of 3 recorded steps" in judgement.because
    check_refuted(judge(alternating(fed, moved(1.7))), "expected above 0")


def test_tokens_beside_the_text_that_move_nothing_are_suspected() -> None:
    lost = OtherInput("model.py:7", 0.0, 1e-12, 0.0)
    found = judge(seen(*moved(2.0), lost))
    assert found.status is Status.SUSPECTED
    assert found.where == Where("model.py", 7)
    assert "all of 3 recorded steps" in found.because


def test_a_gate_that_opens_after_the_first_step_is_no_fault() -> None:
    closed, opened = (OtherInput("model.py:7", by, 1e-12) for by in (0.0, 0.2))
    check_refuted(judge(alternating([*moved(2.0), closed], [*moved(2.0), opened])), "2")
