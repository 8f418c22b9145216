"""What judges look at."""

from __future__ import annotations

from any_finding import every_kind, finding

from lossleuth.findings.data import Alignment, Padding
from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence, SeenEvaluation
from lossleuth.types.observed import Step

ALIGNMENT = finding(Alignment, 0.5)
UNTESTED = Alignment(None, {}, 0, 0, untested="no targets")


def test_only_effects_that_are_known_are_answers() -> None:
    known, unknown = Change.of("scale_lr", factor=0.1), Change.of("scale_lr", factor=10)
    effect = Effect(known, 0.5, 0.01, 3, 80, 4.0, 3.5, 5.0)
    assert Evidence(effects={known: effect}).answers([unknown, known]) == [effect]


def test_what_could_not_be_measured_is_a_reason_and_no_finding() -> None:
    evidence = Evidence(recorded=[RecordedStep(1, [UNTESTED]), RecordedStep(7, [ALIGNMENT])])
    assert evidence.all(Alignment) == [ALIGNMENT]
    assert list(evidence.by_step(Alignment)) == [(7, ALIGNMENT)]
    assert evidence.reasons(Alignment) == ["no targets"]


def test_what_is_not_asked_for_is_not_handed_on() -> None:
    seen = SeenEvaluation(1, finding(Evaluation, 0.5))
    evidence = Evidence(recorded=[RecordedStep(1, every_kind(0.5))], evaluations=[seen])
    narrow = evidence.only((Alignment,))
    assert narrow.all(Alignment) and not narrow.all(Padding) and not narrow.evaluations
    assert evidence.only((Evaluation,)).evaluations == [seen]


def test_a_loss_that_was_not_seen_is_no_loss() -> None:
    steps = [Step(0, loss=2.0, lr=0.1), Step(1), Step(2, loss=1.0)]
    assert Evidence(steps=steps).losses == [2.0, 1.0]
    assert Evidence(steps=steps).learning_rates == [0.1]


def test_failures_of_a_probe_are_known_by_its_name() -> None:
    evidence = Evidence(recorded=[RecordedStep(1, errored={"leaks": "RuntimeError: ours"})])
    assert evidence.errors("leaks") == ["RuntimeError: ours"]
    assert evidence.errors("padding") == []
