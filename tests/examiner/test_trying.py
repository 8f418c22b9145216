"""Trials of one phase: what is tried, and what counts of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from small_examinations import Recorded, always, cause, says

from lossleuth.causes.reasoning import sure_gain
from lossleuth.examiner import trying
from lossleuth.examiner.examination import Examination
from lossleuth.examiner.rejudge import rejudge
from lossleuth.examiner.request import Budget, Request
from lossleuth.judge.verdict import Verdict
from lossleuth.observe.launch.executor import RunOutcome, RunSpec
from lossleuth.types.cause import Cause
from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status
from lossleuth.types.yardstick import Yardstick

RATE = Change.of("scale_lr", factor=0.1)
REFUTED = cause("a", always(says(Status.REFUTED)))
LOWER = Challenge(RATE, "at a tenth of the rate")


def examined(
    folder: Path,
    executor: Recorded,
    causes: Sequence[Cause],
    battery: Sequence[Challenge],
    **more: Any,
) -> tuple[Verdict, list[str]]:
    news: list[str] = []
    request = Request("train.py", folder / "out", **{"steps": 30, "budget": 60.0, **more})
    examination = Examination(executor, request, lambda x: news.append(str(x)), causes, battery)
    return examination.run(), news


def falling(plan: RunSpec) -> list[float]:
    return [3.0 - 0.1 * i for i in range(30)]


def better_at_a_lower_rate(plan: RunSpec) -> list[float]:
    """Learns, and by 0.5 nats more with the change."""
    seed = plan.seed_shift / 1e5
    return [max(1.0, 3.0 - 0.1 * i) - 0.5 * (RATE in plan.changes) + seed for i in range(30)]


def test_a_run_that_learns_less_than_it_could_is_not_healthy(tmp_path: Path) -> None:
    executor = Recorded(better_at_a_lower_rate)
    found, progress = examined(tmp_path, executor, [REFUTED], [LOWER])
    assert (found.status, found.ranked) == ("cannot_tell", [])
    assert found.notes[0].startswith("it does better at a tenth of the rate, by 0.50 ± 0.00 nats")
    (gain,) = found.headroom
    assert (gain.effect.seeds, gain.counts) == (3, True)
    # One seed to choose, three others to tell, as long as the run.
    seeds = [{plan.seed_shift // 1000 for plan in call} for call in executor.calls[1:]]
    assert seeds == [{0}, {1, 2, 3}]
    assert "trying scale_lr(factor=0.1) on 3 seeds, 30 steps" in progress
    assert rejudge(tmp_path / "out").status != "healthy"


def test_a_gain_proves_the_cause_that_it_is_the_cure_of(tmp_path: Path) -> None:
    def judge(evidence: Evidence) -> Judgement:
        gain = sure_gain(evidence, [RATE])
        return says(Status.REFUTED) if gain is None else says(Status.PROVEN, harm=gain, cure=RATE)

    executor = Recorded(better_at_a_lower_rate)
    found, _ = examined(tmp_path, executor, [cause("rate", judge)], [LOWER])
    assert (found.status, found.ranked) == ("proven", ["rate"])


def test_without_challenges_nothing_is_healthy(tmp_path: Path) -> None:
    found, _ = examined(tmp_path, Recorded(falling), [REFUTED], [LOWER], challenges=False)
    assert found.status == "cannot_tell"
    assert found.notes[0] == "it was not tried at a tenth of the rate"


def test_a_proven_fault_is_answer_enough(tmp_path: Path) -> None:
    executor = Recorded(falling)
    plain = cause("offset", always(says(Status.PROVEN)), voids_trials=True)
    found, _ = examined(tmp_path, executor, [plain], [LOWER])
    assert (found.status, len(executor.calls)) == ("proven", 1)


def test_what_is_only_told_does_not_stand_in_the_way(tmp_path: Path) -> None:
    told = Challenge(RATE, "without dropout", Bias.FITS)
    found, _ = examined(tmp_path, Recorded(better_at_a_lower_rate), [REFUTED], [told])
    # It is not even confirmed.
    assert (found.status, found.headroom) == ("healthy", ())


PROVEN = cause("offset", always(says(Status.PROVEN)), voids_trials=True)


@pytest.mark.parametrize(
    ("causes", "options", "asked"),
    [
        ([REFUTED], {}, 1),
        # A fault that is known is answer enough, and what was not asked for is not measured.
        ([PROVEN], {}, 0),
        ([REFUTED], {"challenges": False}, 0),
        ([REFUTED], {"trials": False}, 0),
        ([REFUTED], {"budget": 0.0}, 0),
    ],
)
def test_references_are_trained_for_a_run_that_seems_sound(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    causes: Sequence[Cause],
    options: dict[str, Any],
    asked: int,
) -> None:
    seconds: list[float] = []

    def measured(evidence: Evidence, batches: Path, given: float, _: object) -> Yardstick:
        assert batches == tmp_path / "out" / "observed" / "batches.bin"
        seconds.append(given)
        return Yardstick("its batches were not kept")

    monkeypatch.setattr(trying, "yardstick_of", measured)
    found, _ = examined(tmp_path, Recorded(falling), causes, [LOWER], **options)
    assert len(seconds) == asked
    assert all(0 < given <= trying.YARDSTICK_SHARE * 60.0 for given in seconds)
    told = "it is compared with no reference on its batches: its batches were not kept"
    assert (told in found.notes) is (asked > 0)


class OutOfTime(Recorded):
    """One whose trials end for want of time."""

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = math.inf,
        on_finished: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        if not plans[0].loss_steps:
            return super().run(plans, until, on_finished)
        return [RunOutcome(plan, None, 1.0, "it did not finish within 1 s") for plan in plans]


@pytest.mark.parametrize(("over", "status"), [(True, "cannot_tell"), (False, "healthy")])
def test_a_challenge_for_which_there_was_no_time_was_not_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: bool, status: str
) -> None:
    """One that cannot be made in a program is another thing: nothing can be asked of it."""
    monkeypatch.setattr(Budget, "is_over", property(lambda _: over))
    found, _ = examined(tmp_path, OutOfTime(falling), [REFUTED], [LOWER])
    assert found.status == status
    assert ("it was not tried at a tenth of the rate" in found.notes) is over
