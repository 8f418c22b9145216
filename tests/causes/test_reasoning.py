"""What judges share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from any_finding import finding
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
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Softmaxes
from lossleuth.findings.update import Coverage, UpdateLines
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status, Where, Wrongness
from lossleuth.types.observed import (
    FoundIn,
    Origins,
    Provenance,
    RunSettings,
    Step,
    WeightOrigins,
)

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
    assert proven.because.startswith("1 is 2. With it fixed: true loss 4.900 without, 4.400 with")
    benign = decide(tried(Evidence(), LOW, 0.0))
    assert benign.because.startswith("1 is 2. Harmless here: ")
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
    assert decide(tried(Evidence(), LOW, nats), min_effect=0.15).status is status


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
def test_a_place_is_split_into_file_and_line(place: str | None, where: Where | None) -> None:
    assert reasoning.where_of(place) == where
    assert reasoning.first_place([None, "", place]) == where


def test_places_are_found_in_the_evidence() -> None:
    assert reasoning.update_place(seen()) == UPDATE
    assert reasoning.backward_place(seen()) == BACKWARD
    assert reasoning.optimizer_place(seen()) == OPTIMIZER
    assert reasoning.optimizer_place(seen(settings=RunSettings())) == UPDATE
    assert reasoning.update_place(Evidence(steps=[Step(places=None), Step()])) is None
    only_backward = [Step(places={"backward": "train.py:19"})]
    assert reasoning.update_place(Evidence(steps=only_backward)) == BACKWARD


def test_the_line_that_clips_comes_before_the_one_that_updates() -> None:
    clipping = steps(1, places={"clip": "train.py:17", "update": "train.py:20"})
    assert reasoning.clip_place(seen(steps=clipping)) == Where("train.py", 17)
    assert reasoning.clip_place(seen()) == UPDATE


def test_a_line_that_writes_to_parameters_is_found_in_recorded_steps() -> None:
    lines = [UpdateLines(()), UpdateLines(("sgd.py:7", "sgd.py:8"))]
    assert reasoning.rule_place(seen(*lines)) == Where("sgd.py", 7)
    assert reasoning.rule_place(seen()) is None


def test_weights_are_placed_in_their_file_else_at_the_optimizer() -> None:
    files = WeightOrigins([FoundIn("start.pt"), FoundIn("other.pt")])
    assert reasoning.weights_place(seen(origins=Origins(weights=files))) == Where("start.pt")
    assert reasoning.weights_place(seen()) == OPTIMIZER
    assert reasoning.weights_place(seen(origins=Origins(weights=WeightOrigins()))) == OPTIMIZER


@pytest.mark.parametrize(
    ("libraries", "where"),
    [(["a.so", "notes.txt"], Where("a.so")), (["a.so", "b.so"], None), ([], None)],
)
def test_only_a_single_library_can_be_blamed(libraries: list[str], where: Where | None) -> None:
    assert reasoning.library_place(seen(provenance=Provenance(libraries))) == where


def test_a_setting_is_placed_in_its_file() -> None:
    evidence = seen(origins=Origins(settings={"lr": FoundIn("c.yaml"), "decay": None}))
    assert reasoning.setting_place(evidence, "lr") == Where("c.yaml")
    assert reasoning.setting_place(evidence, "clip") is None
    assert reasoning.setting_place(evidence, "decay") is None
    assert reasoning.setting_place(seen(), "lr") is None


def test_numbers_are_read_from_recorded_steps() -> None:
    true, coverage = finding(TrueLoss, 4.0), finding(Coverage, 0.0)
    first = [replace(true, vocabulary=None), replace(coverage, frozen_share=0.25)]
    last = [replace(true, loss=3.0, vocabulary=96), coverage]
    unknown = [replace(true, loss=None, vocabulary=7, untested="no targets")]
    evidence = alternating(first, unknown, last, steps=steps(2, unigram=3.1))
    assert reasoning.true_losses(evidence) == [(1, 4.0), (3, 3.0)]
    assert reasoning.vocabulary(evidence) == 96
    assert reasoning.frozen_share(evidence) == 0.25
    assert reasoning.unigram(evidence) == 3.1


def test_the_vocabulary_is_else_that_of_the_steps() -> None:
    assert reasoning.vocabulary(seen(steps=steps(2, classes=[10, 12]))) == 12


def test_nothing_is_read_from_nothing() -> None:
    nothing = Evidence()
    assert reasoning.true_losses(nothing) == []
    assert reasoning.vocabulary(nothing) is None and reasoning.unigram(nothing) is None
    assert reasoning.frozen_share(nothing) == 0.0


def test_only_finite_numbers_are_numbers() -> None:
    assert reasoning.finite([1, 2.5, math.nan, math.inf, -math.inf, None]) == [1.0, 2.5]
    assert reasoning.share(1, 4) == 0.25 and reasoning.share(1, 0) == 0.0


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_classes_and_positions_that_are_mixed_up_leave_no_row_of_logits(is_elsewhere: bool) -> None:
    softmaxes = Softmaxes(None, None, None, (), picked_elsewhere=is_elsewhere)
    assert reasoning.is_torn(seen(softmaxes)) is is_elsewhere
    assert not reasoning.is_torn(Evidence())
