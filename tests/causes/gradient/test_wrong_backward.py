"""Backward passes that are not the derivative."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import BACKWARD, alternating, check_refuted, check_trial, check_untested, seen, tried

from lossleuth.causes.gradient.wrong_backward import CURE, judge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where

SWIFT = Change.of("differentiate_forward", functions="FusedNorm")


def function(error: float, floor: float = 1e-7, **given: Any) -> dict[str, Any]:
    place = {"name": "FusedNorm", "file": "norm.py", "line": 32}
    found = {"error": error, "floor": floor, "straight_through": False, "untested": None}
    return {"functions": [{**place, **found, **given}]}


def truth(error: float, floor: float = 1e-7) -> dict[str, Any]:
    parameters = [{"name": "tok.weight", "error": error}, {"name": "head.weight", "error": 0.0}]
    found = {"error": error, "floor": floor, "parameters": parameters, "untested": None}
    return {"gradient_truth": [found]}


def by_hand(*errors: float) -> dict[str, Any]:
    found = [{"error": e, "floor": 1e-7, "place": "train.py:40", "cosine": 1.0} for e in errors]
    return {"hand_gradients": found}


def hook(error: float | None) -> dict[str, Any]:
    places = ["train.py:50"]
    return {"hooks": [{"tensor": "head.weight", "error": error, "floor": 1e-7, "places": places}]}


@pytest.mark.parametrize(
    ("found", "where", "words"),
    [
        (hook(0.9) | truth(9.0), Where("train.py", 50), "head.weight after its hooks"),
        (truth(0.2), BACKWARD, "most of all that of tok.weight"),
        (by_hand(0.7, 0.3), Where("train.py", 40), "0.3 of its size"),
    ],
    ids=["hook", "whole", "by hand"],
)
def test_a_wrong_gradient_is_suspected_at_its_place_until_replaced(
    found: Any, where: Where, words: str
) -> None:
    check_trial(judge, seen(**found), [CURE], where)
    assert words in judge(seen(**found)).because


@pytest.mark.parametrize("found", [function(0.5), function(0.1) | truth(9.0)], ids=["one", "all"])
def test_a_function_is_blamed_before_the_sum_and_cured_by_itself(found: Any) -> None:
    fault = seen(**found)
    judged = judge(fault)
    assert (judged.status, judged.trials_wanted) == (Status.SUSPECTED, (SWIFT,))
    assert judged.where == Where("norm.py", 32) and "backward of FusedNorm" in judged.because
    proven = judge(tried(fault, SWIFT, 2.0))
    assert (proven.status, proven.cure) == (Status.PROVEN, SWIFT)
    assert judge(tried(fault, SWIFT, 0.0)).status is Status.BENIGN


def test_where_torch_cannot_differentiate_a_forward_the_whole_step_is_replayed() -> None:
    fault = seen(**function(0.5))
    failed = {SWIFT: "it made 0 steps, where 80 were expected"}
    assert judge(replace(fault, failed=failed)).trials_wanted == (CURE,)
    both = {"functions": [*function(0.5)["functions"], *function(0.2, name="Act")["functions"]]}
    assert judge(seen(**both)).trials_wanted == (
        Change.of("differentiate_forward", functions="Act,FusedNorm"),
    )


def test_the_one_library_that_is_no_package_is_blamed_for_its_function() -> None:
    fault = seen(provenance={"libraries": ["fast.so", "notes.txt"]}, **function(0.5))
    assert judge(fault).where == Where("fast.so", None, "FusedNorm")
    assert judge(fault).trials_wanted == (CURE,)


@pytest.mark.parametrize(
    "found",
    [
        truth(1e-7),
        truth(9e-6, floor=1e-9),
        truth(0.02, floor=0.001),
        function(3.0, straight_through=True) | truth(1e-7),
        function(3.0, untested="outside torch") | truth(1e-7),
        hook(None) | truth(1e-7),
        by_hand(0.9, 1e-7),
    ],
    ids=["exact", "tiny", "rounding", "straight through", "unknown", "no hook", "by hand"],
)
def test_true_gradients_and_those_meant_otherwise_are_sound(found: Any) -> None:
    check_refuted(judge(seen(**found)), "true one")


def test_without_a_replay_it_is_untested_with_the_reason() -> None:
    check_untested(judge(Evidence()), "no finite gradient")
    unknown = seen(gradient_truth=[{"untested": "a sparse tensor"}])
    check_untested(judge(unknown), "a sparse tensor")


def test_the_largest_error_of_all_steps_is_told() -> None:
    assert "by 0.7 of" in judge(alternating(function(0.2), function(0.7), truth(0.1))).because
    check_refuted(judge(alternating(truth(1e-7), truth(4e-7))), "4.0e-07")
    check_refuted(judge(seen(**by_hand(0.9, 1e-7))), "1.0e-07")


def hand(error: float = 0.9, **given: object) -> dict[str, object]:
    """A step without autograd, with the gradient of one parameter wrong."""
    found = {
        "loss": 3.0,
        "error": error,
        "floor": 1e-6,
        "right": ["W2"],
        "wrong": ["W1"] if error > 1e-6 else [],
        "place": "model.py:62",
        "followed": 20,
        "along_own": 2.5,
        "along_true": 1.0,
    }
    return {"hand_step": {**found, **given}}


def test_a_wrong_gradient_worked_out_by_hand_is_proven_by_following_the_true_one() -> None:
    evidence = alternating(*(hand(along_own=2.5 + 0.1 * i) for i in range(4)))
    found = judge(evidence)
    assert found.status is Status.PROVEN
    assert found.where == Where("model.py", 62)
    assert "W1" in found.because and "while W2" in found.because
    assert found.harm is not None and found.harm.nats == pytest.approx(1.65)


def test_what_diverges_has_learnt_nothing_and_no_more() -> None:
    evidence = alternating(hand(along_own=50.0), hand(along_own=float("inf")), hand(along_own=2.9))
    harm = judge(evidence).harm
    assert harm is not None
    assert harm.without == pytest.approx((3.0 + 3.0 + 2.9) / 3)


def test_a_wrong_gradient_that_does_as_well_is_benign() -> None:
    assert judge(seen(**hand(along_own=1.0))).status is Status.BENIGN


def test_a_wrong_gradient_that_could_not_be_followed_is_suspected() -> None:
    assert judge(seen(**hand(along_own=None, along_true=None))).status is Status.SUSPECTED


def test_a_right_gradient_worked_out_by_hand_is_sound() -> None:
    check_refuted(judge(seen(**hand(1e-16))), "1.0e-16", "3 recorded steps")


def test_batches_that_do_not_agree_leave_it_suspected() -> None:
    evidence = alternating(*(hand(along_own=own) for own in (2.5, 2.5, 2.5, 0.2)))
    assert judge(evidence).status is Status.SUSPECTED
