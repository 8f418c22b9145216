"""Targets that are not the next token."""

from __future__ import annotations

from dataclasses import replace

import pytest
from any_finding import finding
from evidence import (
    LOSS,
    TARGET_LINES,
    alternating,
    check_proven,
    check_refuted,
    check_untested,
    seen,
)

from lossleuth.causes.data.label_offset import CAUSE, judge
from lossleuth.findings.data import Alignment
from lossleuth.findings.distillation import Teaching
from lossleuth.findings.model import Leaks
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import FoundIn, Origins


def aligned(offset: int | None, share: float = 1.0, right: float = 0.1) -> Alignment:
    shares = dict.fromkeys(range(-2, 4), 0.1) | {1: right}
    if offset is not None:
        shares[offset] = share
    return Alignment(offset, shares, supervised=512, targets=512)


@pytest.mark.parametrize("offset", [-1, 0, 2, 3])
def test_another_offset_than_one_is_proven(offset: int) -> None:
    judgement = judge(seen(aligned(offset)))
    check_proven(judgement, LOSS, f"offset {offset}", "100%", "512", "offset 1")
    assert judgement.cure == Change.of("follow_cross_entropy")


def test_the_lines_that_made_the_targets_come_before_the_loss() -> None:
    lines = replace(TARGET_LINES, targets=("train.py:9",))
    check_proven(judge(seen(aligned(2), lines)), Where("train.py", 9))


@pytest.mark.parametrize(("tokens", "where"), [("t.bin", Where("l.bin")), ("l.bin", LOSS)])
def test_a_file_of_targets_alone_is_named(tokens: str, where: Where) -> None:
    origins = Origins(targets=FoundIn("l.bin"), tokens=FoundIn(tokens))
    check_proven(judge(seen(aligned(0), origins=origins)), where)


@pytest.mark.parametrize(
    "alignment",
    [aligned(1), aligned(None), aligned(2, share=0.9), aligned(0, right=0.95)],
    ids=["next token", "no offset", "most only", "a text of one token"],
)
def test_targets_at_the_next_token_or_by_coincidence_are_no_fault(alignment: Alignment) -> None:
    check_refuted(judge(seen(alignment)), "512 targets")


def test_offsets_that_change_from_step_to_step_are_not_blamed() -> None:
    check_refuted(judge(alternating([aligned(2)], [aligned(1)])))


@pytest.mark.parametrize(("future", "is_meant"), [(0.5, True), (0.0, False), (6e-10, False)])
def test_a_denoiser_may_copy_and_a_causal_model_may_not(future: float, is_meant: bool) -> None:
    leaks = Leaks(future, None, None, None, floor=1e-12)
    judgement = judge(seen(aligned(0), leaks))
    if is_meant:
        check_refuted(judgement, "whole input")
    else:
        check_proven(judgement, LOSS)


def test_without_targets_it_is_untested_with_the_reason() -> None:
    check_untested(CAUSE.judged(Evidence()), "no step was recorded")
    reason = "the tokens are not rows of positions"
    check_untested(CAUSE.judged(seen(replace(aligned(2), untested=reason))), reason)
    few = replace(aligned(2), supervised=7)
    check_untested(CAUSE.judged(seen(few)), "8 supervised targets")


@pytest.mark.parametrize(
    ("heads", "is_fault"), [((0, 1), True), ((1, 2), False), ((None, 1), False), ((), False)]
)
def test_a_head_that_is_asked_for_its_own_input_is_suspected(
    heads: tuple[int | None, ...], is_fault: bool
) -> None:
    next_token = Alignment(1, {0: 0.1, 1: 1.0}, supervised=64, targets=64, heads=heads)
    found = judge(seen(next_token))
    if is_fault:
        assert found.status is Status.SUSPECTED
        assert "offsets 0, 1" in found.because and "should be 1" in found.because
    else:
        check_refuted(found)


@pytest.mark.parametrize("has_labels", [True, False])
def test_what_a_teacher_alone_says_has_no_offset(has_labels: bool) -> None:
    teaching = replace(finding(Teaching, 0.5), has_labels=has_labels)
    assert CAUSE.is_core(seen(teaching)) is has_labels
    assert CAUSE.is_core(seen())


def test_texts_of_one_token_have_no_next_one_to_be_compared() -> None:
    alone = Alignment(0, {0: 1.0}, supervised=32, targets=32)
    check_untested(judge(seen(alone)), "too short")
    # A curriculum that begins with them is judged by its longer texts.
    check_refuted(judge(alternating([alone], [aligned(1)])))
    assert judge(alternating([alone], [aligned(0)])).status is Status.REFUTED


@pytest.mark.parametrize(("share", "is_fault"), [(0.04, True), (0.9, False), (None, False)])
def test_a_prefix_that_sees_itself_hides_no_offset(share: float | None, is_fault: bool) -> None:
    leaks = Leaks(0.3, None, None, None, floor=1e-12, future_share=share)
    found = judge(seen(aligned(2), leaks))
    assert (found.status is Status.PROVEN) is is_fault
