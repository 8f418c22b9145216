"""Whether a run may be called healthy."""

from __future__ import annotations

from dataclasses import replace

from small_examinations import always, cause, says

from lossleuth.findings.model import OtherInput
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.health import MAX_TOLD, shortcomings
from lossleuth.types.cause import always as every_run
from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status
from lossleuth.types.observed import Readings, Step

LOWER = Challenge(Change.of("scale_lr", factor=0.1), "at a tenth of the rate")
CORE = replace(cause("leak", always(says(Status.REFUTED))), is_core=every_run)
OTHER = cause("epsilon", always(says(Status.REFUTED)))


def effect(nats: float) -> Effect:
    return Effect(LOWER.change, nats, 0.01, 3, 80, 3.0, 3.0 - nats, 4.0)


def test_nothing_is_missing_where_the_core_is_tested_and_challenges_gain_nothing() -> None:
    known = {"leak": says(Status.REFUTED), "epsilon": says(Status.UNTESTED)}
    stood = Evidence(effects={LOWER.change: effect(-0.2)})
    assert shortcomings([CORE, OTHER], known, stood, [LOWER]) == []


def test_a_structural_cause_that_was_not_tested_is_named_with_the_reason() -> None:
    for status in (Status.UNTESTED, Status.ERRORED):
        known = {"leak": says(status, "no logits were found")}
        (found,) = shortcomings([CORE], known, Evidence(), [])
        assert found == "leak was not tested: no logits were found"


def test_a_gain_comes_first_and_what_was_not_tried_last() -> None:
    known = {"leak": says(Status.UNTESTED, "no logits were found")}
    higher = replace(LOWER, change=Change.of("hold_lr"), words="with the rate held")
    run = Evidence(effects={LOWER.change: effect(0.5)})
    found = shortcomings([CORE], known, run, [LOWER, higher])
    assert [sentence.split()[0] for sentence in found] == ["it", "leak", "it"]
    assert found[0].startswith("it does better at a tenth of the rate, by 0.50")
    assert found[2] == "it was not tried with the rate held"


def test_many_open_questions_are_counted() -> None:
    causes = [replace(CORE, id=f"leak{i}") for i in range(MAX_TOLD + 2)]
    known = {c.id: says(Status.UNTESTED, "no step was recorded") for c in causes}
    found = shortcomings(causes, known, Evidence(), [])
    assert found[-1] == "2 more structural causes were not tested"
    assert len(found) == MAX_TOLD + 1


def test_weights_that_something_else_writes_to_are_told() -> None:
    sizes = [[1.0 - 0.5 * (step % 10 == 9)] for step in range(40)]
    readings = Readings(weight_rms=sizes, update_rms=[[0.01]] * 40)
    run = Evidence(steps=[Step(i) for i in range(40)], sizes=[8], readings=readings)
    (found,) = shortcomings([], {}, run, [])
    assert found.startswith("weights moved by more than their updates at 7 of 40 steps, the first")


def test_an_input_that_tells_nothing_of_the_targets_is_told() -> None:
    def worth(*nats: float) -> list[str]:
        steps = [
            RecordedStep(step, (OtherInput("model.py:7", 0.5, 1e-12, by),))
            for step, by in enumerate(nats)
        ]
        return shortcomings([], {}, Evidence(recorded=steps), [])

    (said,) = worth(0.0, 0.002, 0.001)
    assert "model.py:7 tells nothing of the targets" in said and "0.002" in said
    # At first no model makes use of it.
    assert worth(0.0, 0.002, 0.7) == worth(0.002) == []
