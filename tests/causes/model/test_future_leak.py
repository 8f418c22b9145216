"""Positions that see later tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence import alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.model.future_leak import CAUSE, judge
from lossleuth.findings.data import Alignment
from lossleuth.findings.finding import Finding
from lossleuth.findings.model import Leaks, Softmaxes
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where


def leak(future: float | None, offset: int | None = 1, *places: str) -> list[Finding]:
    leaks = Leaks(future, None, None, None, places=places, floor=1e-12, future_harm=0.5)
    return [leaks, Alignment(offset, {}, supervised=512, targets=512)]


@pytest.mark.parametrize("offset", [1, 2])
def test_a_later_token_that_moves_earlier_logits_is_proven(offset: int) -> None:
    fault = seen(*leak(0.7, offset, "model.py:21"))
    check_proven(judge(fault), Where("model.py", 21), "0.7", "all of 3", "exactly 0")


@pytest.mark.parametrize("future", [0.0, 1e-13], ids=["exactly", "to rounding"])
def test_a_causal_model_is_sound(future: float) -> None:
    check_refuted(judge(seen(*leak(future))), "expected 0")


@pytest.mark.parametrize("offset", [0, None], ids=["denoiser", "classifier"])
def test_a_model_that_may_see_its_whole_input_is_not_blamed(offset: int | None) -> None:
    check_refuted(judge(seen(*leak(0.7, offset))), "whole input")


def test_a_leak_on_some_steps_only_is_blamed_by_its_harm() -> None:
    check_proven(judge(alternating(leak(0.7), leak(0.0))), None, "0.5 nats")
    harmless = [replace(found, future_harm=0.0) for found in leak(0.7)[:1]]
    check_refuted(judge(alternating([*harmless, *leak(0.7)[1:]], leak(0.0))), "no harm")


def test_without_logits_it_is_untested_with_the_reason() -> None:
    check_untested(CAUSE.judged(Evidence()), "no step was recorded")
    check_untested(CAUSE.judged(seen(*leak(None))), "before a changed token")
    unknown = Leaks(None, None, None, None, untested="no rows")
    check_untested(CAUSE.judged(seen(unknown)), "no rows")


def test_a_leak_without_known_targets_is_not_blamed() -> None:
    leaks, alignment = leak(0.7)
    check_refuted(CAUSE.judged(seen(leaks)), "whole input")
    check_refuted(CAUSE.judged(seen(leaks, replace(alignment, untested="no rows"))), "whole input")


def test_logits_whose_rows_are_mixed_up_are_for_another() -> None:
    torn = Softmaxes(None, None, "train.py:18", (), picked_elsewhere=True)
    check_untested(CAUSE.judged(seen(*leak(0.7), torn)), "softmax_axis")


def test_the_smallest_move_of_all_steps_is_given() -> None:
    check_proven(judge(alternating(leak(0.7), leak(0.2))), None, "by 0.2 of")


def test_a_prefix_that_sees_itself_is_not_proven_where_targets_are_shifted() -> None:
    def shifted(share: float, offset: int = 2) -> Evidence:
        leaks, alignment = leak(0.7, offset)
        return seen(replace(leaks, future_share=share), alignment)

    found = judge(shifted(0.04))
    assert found.status is Status.SUSPECTED and "offset 2" in found.because
    assert judge(shifted(0.9)).status is judge(shifted(0.04, 1)).status is Status.PROVEN
