"""What judges share."""

from __future__ import annotations

import math
from typing import Any

import pytest
from evidence import (
    BACKWARD,
    OPTIMIZER,
    REASON,
    UPDATE,
    alternating,
    check_trial,
    seen,
    steps,
    tried,
    without_trial,
)

from lossleuth.causes import reasoning
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status, Where, Wrongness

LOW, HIGH = Change.of("scale_lr", factor=0.1), Change.of("scale_lr", factor=0.01)
FAULT = Judgement(
    Status.SUSPECTED, "1 is 2.", UPDATE, Wrongness("one", 2.0, 1.0, 0.0), remedy="Make it 1."
)


def decide(evidence: Evidence, **given: Any) -> Judgement:
    return reasoning.decided_by_trial(evidence, FAULT, [LOW, HIGH], **given)


def test_a_fault_goes_from_suspicion_to_a_verdict_by_its_trials() -> None:
    check_trial(decide, Evidence(), [LOW, HIGH], UPDATE)


def test_a_verdict_keeps_the_words_of_the_fault_and_adds_the_figures() -> None:
    proven = decide(tried(Evidence(), LOW, 0.5))
    assert proven.because.startswith("1 is 2. Undone: true loss 4.900 without, 4.400 with")
    benign = decide(tried(Evidence(), LOW, 0.0))
    assert benign.because.startswith("1 is 2. It does not matter here: ")
    assert benign.harm is not None and benign.harm.nats == 0.0


def test_the_best_of_several_answers_decides() -> None:
    evidence = tried(tried(Evidence(), LOW, 0.3), HIGH, 0.6)
    assert decide(evidence).cure == HIGH
    assert decide(evidence, cure=LOW).cure == LOW


def test_an_answer_over_three_seeds_outranks_a_glance_at_one() -> None:
    evidence = tried(tried(Evidence(), LOW, 0.0), HIGH, 9.0, seeds=1)
    assert decide(evidence).status is Status.BENIGN


def test_the_most_hopeful_of_several_glances_is_asked_for() -> None:
    evidence = tried(tried(Evidence(), LOW, 0.3, seeds=1), HIGH, 0.6, seeds=1)
    assert decide(evidence).trials_wanted == (HIGH,)
    assert decide(tried(Evidence(), HIGH, 0.0, seeds=1)).status is Status.BENIGN


@pytest.mark.parametrize(("nats", "status"), [(0.2, Status.PROVEN), (0.1, Status.BENIGN)])
def test_a_gain_below_what_matters_proves_nothing(nats: float, status: Status) -> None:
    assert decide(tried(Evidence(), LOW, nats), least=0.15).status is status


def test_one_failed_trial_does_not_silence_the_other() -> None:
    failed = without_trial(Evidence(), [LOW])
    assert decide(failed).trials_wanted == (LOW, HIGH)
    assert decide(tried(failed, HIGH, 0.5)).status is Status.PROVEN
    assert REASON in decide(without_trial(Evidence(), [LOW, HIGH])).because


@pytest.mark.parametrize(
    ("place", "where"),
    [
        ("a/b.py:7", Where("a/b.py", 7)),
        ("C:\\b.py:7", Where("C:\\b.py", 7)),
        ("weights.pt", Where("weights.pt")),
        ("odd:name", Where("odd:name")),
        ("", None),
        (None, None),
    ],
)
def test_a_place_is_taken_apart(place: str | None, where: Where | None) -> None:
    assert reasoning.where_of(place) == where
    assert reasoning.first_place([None, "", place]) == where


def test_places_are_found_in_the_evidence() -> None:
    assert reasoning.update_place(seen()) == UPDATE
    assert reasoning.backward_place(seen()) == BACKWARD
    assert reasoning.optimizer_place(seen()) == OPTIMIZER
    assert reasoning.optimizer_place(seen(settings={})) == UPDATE
    assert reasoning.update_place(Evidence(steps=[{"places": None}, {}])) is None


@pytest.mark.parametrize(
    ("libraries", "where"),
    [(["a.so", "notes.txt"], Where("a.so")), (["a.so", "b.so"], None), ([], None)],
)
def test_only_a_single_library_can_be_blamed(libraries: list[str], where: Where | None) -> None:
    assert reasoning.library_place(seen(provenance={"libraries": libraries})) == where


def test_a_setting_is_placed_in_its_file() -> None:
    evidence = seen(origins={"settings": {"lr": {"file": "c.yaml"}}})
    assert reasoning.setting_place(evidence, "lr") == Where("c.yaml")
    assert reasoning.setting_place(evidence, "clip") is None
    assert reasoning.setting_place(seen(origins={"settings": None}), "lr") is None


@pytest.mark.parametrize(
    ("groups", "adaptive"),
    [([{"betas": [0.9, 0.99]}], True), ([{"alpha": 0.9}], True), ([{"momentum": 0.9}], False)],
)
def test_adaptive_rules_are_known_by_their_settings(groups: Any, adaptive: bool) -> None:
    assert reasoning.is_adaptive(seen(settings={"optimizers": [{"groups": groups}]})) is adaptive
    assert not reasoning.is_adaptive(Evidence())


def test_numbers_are_read_from_recorded_steps() -> None:
    first = {"true_loss": {"loss": 4.0, "vocabulary": None}, "coverage": {"frozen_share": 0.25}}
    last = {"true_loss": {"loss": 3.0, "vocabulary": 96}, "coverage": {"frozen_share": 0.0}}
    evidence = alternating(first, {"true_loss": {"loss": None}}, last, steps=steps(2, unigram=3.1))
    assert reasoning.true_losses(evidence) == [(1, 4.0), (3, 3.0)]
    assert reasoning.vocabulary(evidence) == 96
    assert reasoning.frozen_share(evidence) == 0.25
    assert reasoning.unigram(evidence) == 3.1
    assert reasoning.latest(evidence.windows, "coverage") == {"frozen_share": 0.0}


def test_the_vocabulary_is_else_that_of_the_steps() -> None:
    assert reasoning.vocabulary(seen(steps=steps(2, classes=[10, 12]))) == 12


def test_nothing_is_read_from_nothing() -> None:
    nothing = Evidence()
    assert reasoning.true_losses(nothing) == []
    assert reasoning.vocabulary(nothing) is None and reasoning.unigram(nothing) is None
    assert reasoning.latest([], "coverage") is None
    assert reasoning.frozen_share(nothing) == 0.0


def test_only_finite_numbers_are_numbers() -> None:
    assert reasoning.finite([1, 2.5, math.nan, math.inf, None, "3"]) == [1.0, 2.5]
    assert reasoning.share(1, 4) == 0.25 and reasoning.share(1, 0) == 0.0


def test_classes_that_change_places_with_positions_tear_rows_apart() -> None:
    assert reasoning.is_torn(
        Evidence(windows=[{"step": 1, "softmaxes": {"picked_elsewhere": True}}])
    )
    assert not reasoning.is_torn(
        Evidence(windows=[{"step": 1, "softmaxes": {"picked_elsewhere": False}}])
    )
