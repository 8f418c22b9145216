"""Losses over no target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from any_finding import finding
from evidence import LOSS, TARGET_LINES, check_proven, check_refuted, check_untested, seen, steps

from lossleuth.causes.data.labels_all_masked import CAUSE, judge
from lossleuth.findings.data import Alignment
from lossleuth.findings.distillation import Teaching
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import Ending, Unfinished


def counted(supervised: list[int], **scalars: Any) -> Evidence:
    return seen(steps=steps(len(supervised), supervised=supervised, **scalars))


def test_the_line_that_masked_them_on_such_a_step_is_named() -> None:
    masked = replace(TARGET_LINES, filled=("data.py:7",))
    losses = [3.0, 3.0, math.nan, 3.0]
    known = {"supervised": [64, 64, 0, 64], "loss": losses}
    there = [RecordedStep(1, [masked]), RecordedStep(2, [masked])]
    check_proven(judge(seen(steps=steps(4, **known), recorded=there)), Where("data.py", 7))
    # Other steps may mask a part of theirs, as they should.
    check_proven(judge(seen(steps=steps(4, **known), recorded=there[:1])), LOSS)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_over_nothing_that_is_not_finite_is_proven(bad: float) -> None:
    losses = [3.0, 3.0, bad, 3.0]
    check_proven(judge(counted([64, 64, 0, 64], loss=losses)), LOSS, "1 losses", "step 2")


def test_one_empty_micro_batch_of_a_step_is_enough() -> None:
    evidence = counted([64, 64, 60], unsupervised=[0, 0, 1], loss=[3.0, 3.0, math.nan])
    check_proven(judge(evidence), LOSS, "1 losses", "step 2")


@pytest.mark.parametrize("chunks", [1, 5])
def test_sums_over_no_target_add_nothing_unless_the_loss_is_no_number(chunks: int) -> None:
    """A loss that is taken in chunks has some without a target."""
    sums = {"unsupervised": [chunks] * 9, "empty_sums": [chunks] * 9}
    check_refuted(judge(counted([64] * 9, loss=[3.0] * 9, **sums)), "9 steps")
    divided = judge(counted([64] * 9, loss=[3.0] * 8 + [math.nan], **sums))
    check_proven(divided, LOSS, f"{chunks} losses", "step 8")


def test_most_steps_without_a_target_are_proven_though_their_loss_is_finite() -> None:
    check_proven(judge(counted([0, 0, 0, 64], loss=0.0)), LOSS, "3 losses", "step 0")


def test_an_end_in_a_loss_over_nothing_is_proven() -> None:
    unfinished = Unfinished(supervised=0, unsupervised=1, losses=[math.nan])
    evidence = seen(steps=steps(3, supervised=64), ending=Ending(unfinished=unfinished))
    check_proven(judge(evidence), LOSS, "1 losses")


def test_a_run_that_never_gets_beyond_losses_over_nothing_is_proven() -> None:
    unfinished = Unfinished(supervised=0, unsupervised=9, losses=[0.0] * 9)
    check_proven(judge(seen(steps=[], ending=Ending(unfinished=unfinished))), LOSS, "9 losses")


def test_a_program_that_leaves_out_an_empty_batch_at_its_end_is_not_blamed() -> None:
    unfinished = Unfinished(supervised=0, unsupervised=1, losses=[0.0])
    evidence = seen(steps=steps(9, supervised=64), ending=Ending(unfinished=unfinished))
    assert judge(evidence).status is Status.BENIGN


def test_a_program_that_handles_an_empty_batch_now_and_then_is_not_blamed() -> None:
    judgement = judge(counted([64, 0, 64, 64], loss=[3.0, 0.0, 3.0, 3.0]))
    assert judgement.status is Status.BENIGN
    assert judgement.where == LOSS


def test_a_loss_that_is_not_finite_over_targets_is_something_else() -> None:
    check_refuted(judge(counted([64, 32], loss=math.nan)), "2 steps", "32 or more")


def test_without_targets_it_is_untested() -> None:
    check_untested(CAUSE.judged(Evidence()), "no loss with targets")
    check_untested(CAUSE.judged(seen(steps=steps(5, loss=1.0))), "no loss with targets")


def test_a_loss_by_hand_is_known_by_the_targets_that_count() -> None:
    by_hand = [Alignment(1, {}, 64, 64), Alignment(1, {}, 48, 64)]
    recorded = [RecordedStep(i, [found, TARGET_LINES]) for i, found in enumerate(by_hand)]
    check_refuted(judge(seen(recorded=recorded)), "48 or more", "2 recorded steps")


@pytest.mark.parametrize(("weightless", "is_fault"), [(3, True), (2, True), (1, False), (0, False)])
def test_targets_without_weight_on_most_recorded_steps_are_proven(
    weightless: int, is_fault: bool
) -> None:
    every = [Alignment(1, {}, 0 if i < weightless else 64, 64) for i in range(3)]
    recorded = [RecordedStep(i, [found, TARGET_LINES]) for i, found in enumerate(every)]
    found = judge(seen(steps=steps(3, supervised=64), recorded=recorded))
    if is_fault:
        check_proven(found, LOSS, "None of 64 targets", f"{weightless} of 3")
    else:
        check_refuted(found)


def test_where_a_teacher_alone_is_followed_there_are_no_labels_to_be_masked() -> None:
    taught = replace(finding(Teaching, 0.5), has_labels=False)
    assert not CAUSE.is_core(seen(taught))
    assert CAUSE.is_core(seen())


def test_rows_that_are_chosen_by_an_empty_mask_are_a_loss_over_nothing() -> None:
    none = Alignment(None, {}, supervised=0, targets=0)
    assert judge(seen(none)).status is Status.PROVEN
