"""Backward passes that are not the derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from evidence import BACKWARD, alternating, check_refuted, check_trial, check_untested, seen, tried

from lossleuth.causes.gradient.wrong_backward import CAUSE, CURE, judge
from lossleuth.findings.finding import Finding
from lossleuth.findings.gradient import (
    BackwardHook,
    CustomFunction,
    GradientTruth,
    ParameterTruth,
)
from lossleuth.findings.no_autograd import HandGradient, HandStep
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import Provenance

FASTER = Change.of("differentiate_forward", functions="FusedNorm")


def function(error: float, name: str = "FusedNorm", **given: Any) -> CustomFunction:
    return CustomFunction(name, "norm.py", 32, error=error, floor=1e-7, **given)


def truth(error: float, floor: float = 1e-7, **given: Any) -> GradientTruth:
    parameters = [
        ParameterTruth(name, e, floor) for name, e in (("tok.weight", error), ("head.weight", 0.0))
    ]
    numbers = {"cosine": 1.0, "scale": 1.0}
    return GradientTruth(error, floor, **numbers, parameters=tuple(parameters), **given)


def by_hand(*errors: float) -> list[HandGradient]:
    return [HandGradient("train.py:40", e, floor=1e-7, cosine=1.0) for e in errors]


def hook(error: float | None) -> BackwardHook:
    return BackwardHook("head.weight", ("train.py:50",), error, floor=1e-7)


@pytest.mark.parametrize(
    ("found", "where", "words"),
    [
        ([hook(0.9), truth(9.0)], Where("train.py", 50), "head.weight after its hooks"),
        ([truth(0.2)], BACKWARD, "most of all that of tok.weight"),
        (by_hand(0.7, 0.3), Where("train.py", 40), "0.3 of its size"),
    ],
    ids=["hook", "whole", "by hand"],
)
def test_a_wrong_gradient_is_suspected_at_its_place_until_replaced(
    found: Sequence[Finding], where: Where, words: str
) -> None:
    check_trial(judge, seen(*found), [CURE], where)
    assert words in judge(seen(*found)).because


@pytest.mark.parametrize(
    "found", [[function(0.5)], [function(0.1), truth(9.0)]], ids=["one", "all"]
)
def test_a_function_is_blamed_before_the_sum_and_cured_by_itself(
    found: Sequence[Finding],
) -> None:
    fault = seen(*found)
    judged = judge(fault)
    assert (judged.status, judged.trials_wanted) == (Status.SUSPECTED, (FASTER,))
    assert judged.where == Where("norm.py", 32) and "backward of FusedNorm" in judged.because
    proven = judge(tried(fault, FASTER, 2.0))
    assert (proven.status, proven.cure) == (Status.PROVEN, FASTER)
    assert judge(tried(fault, FASTER, 0.0)).status is Status.BENIGN


def test_where_torch_cannot_differentiate_a_forward_the_whole_step_is_replayed() -> None:
    fault = seen(function(0.5))
    failed = {FASTER: "it made 0 steps, where 80 were expected"}
    assert judge(replace(fault, failed=failed)).trials_wanted == (CURE,)
    both = seen(function(0.5), function(0.2, name="Act"))
    assert judge(both).trials_wanted == (
        Change.of("differentiate_forward", functions="Act,FusedNorm"),
    )


def test_the_one_library_that_is_no_package_is_blamed_for_its_function() -> None:
    fault = seen(function(0.5), provenance=Provenance(["fast.so", "notes.txt"]))
    assert judge(fault).where == Where("fast.so", None, "FusedNorm")
    assert judge(fault).trials_wanted == (CURE,)


@pytest.mark.parametrize(
    "found",
    [
        [truth(1e-7)],
        [truth(9e-6, floor=1e-9)],
        [truth(0.02, floor=0.001)],
        [function(3.0, straight_through=True), truth(1e-7)],
        [function(3.0, untested="outside torch"), truth(1e-7)],
        [hook(None), truth(1e-7)],
        by_hand(0.9, 1e-7),
    ],
    ids=["exact", "tiny", "rounding", "straight through", "unknown", "no hook", "by hand"],
)
def test_true_gradients_and_those_meant_otherwise_are_sound(found: Sequence[Finding]) -> None:
    check_refuted(judge(seen(*found)), "true one")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (seen(), "gradient truth could not be measured"),
        (seen(truth(math.nan)), "no finite gradient"),
        (seen(truth(math.nan, untested="a sparse tensor")), "a sparse tensor"),
    ],
    ids=["nothing", "no backward pass", "no number", "no replay"],
)
def test_without_a_replay_it_is_untested_with_the_reason(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_the_largest_error_of_all_steps_is_named() -> None:
    wrong = alternating([function(0.2)], [function(0.7)], [truth(0.1)])
    assert "by 0.7 of" in judge(wrong).because
    check_refuted(judge(alternating([truth(1e-7)], [truth(4e-7)])), "4.0e-07")
    check_refuted(judge(seen(*by_hand(0.9, 1e-7))), "1.0e-07")


def hand(
    error: float = 0.9, along_own: float | None = 2.5, along_true: float | None = 1.0
) -> HandStep:
    """A step without autograd, with the gradient of one parameter wrong."""
    return HandStep(
        loss=3.0,
        loss_place="model.py:70",
        loss_operation="mean",
        right=("W2",),
        wrong=("W1",) if error > 1e-6 else (),
        error=error,
        floor=1e-6,
        place="model.py:62",
        followed=20,
        along_own=along_own,
        along_true=along_true,
    )


def test_a_wrong_gradient_worked_out_by_hand_is_proven_by_following_the_true_one() -> None:
    evidence = alternating(*([hand(along_own=2.5 + 0.1 * i)] for i in range(4)))
    found = judge(evidence)
    assert found.status is Status.PROVEN
    assert found.where == Where("model.py", 62)
    assert "W1" in found.because and "while W2" in found.because
    assert found.harm is not None and found.harm.nats == pytest.approx(1.65)


def test_what_diverges_has_learnt_nothing_and_no_more() -> None:
    evidence = alternating(*([hand(along_own=own)] for own in (50.0, math.inf, 2.9)))
    harm = judge(evidence).harm
    assert harm is not None
    assert harm.without == pytest.approx((3.0 + 3.0 + 2.9) / 3)


def test_a_wrong_gradient_that_does_as_well_is_benign() -> None:
    assert judge(seen(hand(along_own=1.0))).status is Status.BENIGN


def test_a_wrong_gradient_that_could_not_be_followed_is_suspected() -> None:
    assert judge(seen(hand(along_own=None, along_true=None))).status is Status.SUSPECTED


def test_a_right_gradient_worked_out_by_hand_is_sound() -> None:
    check_refuted(judge(seen(hand(1e-16))), "1.0e-16", "3 recorded steps")


def test_batches_that_do_not_agree_leave_it_suspected() -> None:
    evidence = alternating(*([hand(along_own=own)] for own in (2.5, 2.5, 2.5, 0.2)))
    assert judge(evidence).status is Status.SUSPECTED


MEASURED = Change.of("measure_backward", functions="FusedNorm")


def test_a_function_outside_torch_is_tried_by_its_values_and_its_library_named() -> None:
    part = "1 of 24 rows (the first is row 3) of input 1, which it gives 0"
    found = function(1.0, part=part, library="libnorm.so", outside=True)
    check_trial(judge, seen(found), [MEASURED], Where("libnorm.so", None, "FusedNorm"))
    assert f"the backward of FusedNorm gives for {part} differs" in judge(seen(found)).because
    failed = replace(seen(found), failed={MEASURED: "it takes 9000 values"})
    judgement = judge(failed)
    assert (judgement.status, judgement.trials_wanted) == (Status.SUSPECTED, ())


def test_with_one_function_outside_torch_all_are_tried_by_their_values() -> None:
    both = seen(function(1.0, outside=True), function(0.5, name="Gelu"))
    wanted = Change.of("measure_backward", functions="FusedNorm,Gelu")
    assert judge(both).trials_wanted == (wanted,)


def test_of_a_loss_that_a_replay_knows_the_library_is_named_and_the_replay_tried() -> None:
    known = seen(function(0.5, library="libloss.so"))
    check_trial(judge, known, [CURE], Where("libloss.so", None, "FusedNorm"))


def test_values_that_speak_against_a_backward_with_some_doubt_are_no_proof_of_it() -> None:
    """The gradient of the rest is the true one; behind the function, nothing was measured."""
    doubtful = replace(function(0.02, outside=True), floor=0.001)
    check_untested(judge(seen(doubtful, truth(1e-7))), "FusedNorm gives differs")
    sure = replace(doubtful, error=0.0009)
    check_refuted(judge(seen(sure, truth(1e-7))), "the true one")
