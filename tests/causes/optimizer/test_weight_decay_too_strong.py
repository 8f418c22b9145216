"""Weight decay that is more than a nudge."""

from __future__ import annotations

import math

import pytest
from evidence import OPTIMIZER, check_refuted, check_trial, check_untested, seen, steps, tried

from lossleuth.causes.optimizer.weight_decay_too_strong import CAUSE, CURE, judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status
from lossleuth.types.observed import Made, ParameterGroup, Readings, RunSettings


def run(
    decay: float | None, *, lr: float = 1e-3, update: float = 1e-3, gradient: float = 1.0
) -> Evidence:
    """Twenty steps with weights of 0.1, and a second tensor that nobody reads."""
    groups = [ParameterGroup(weight_decay=0.0), ParameterGroup(weight_decay=decay)]
    return seen(
        steps=steps(20, lr=lr),
        settings=RunSettings(optimizers=[Made("train.py:5", groups)]),
        readings=Readings(
            weight_rms=[[0.1, math.nan]] * 20,
            update_rms=[[update, 1.0]] * 20,
            grad_rms=[[gradient, 1.0]] * 20,
        ),
        sizes=[900, 100],
    )


def test_decay_that_makes_much_of_an_update_is_suspected_until_a_trial_decides() -> None:
    fault = run(5.0)
    check_trial(CAUSE.judged, fault, [CURE], OPTIMIZER)
    assert "decay of 5 makes 50% of an update" in judge(fault).because


def test_decay_that_is_added_to_the_gradient_is_blamed_where_the_run_without_gains() -> None:
    # Adam makes updates of the rate's size, whatever is added to the gradient.
    added = run(0.5, gradient=0.01)
    check_refuted(judge(added), "5 times the gradient")
    proven = judge(tried(added, CURE, 0.5))
    assert proven.status is Status.PROVEN
    assert "makes 5 times the gradient" in proven.because
    check_refuted(judge(tried(added, CURE, 0.0)), "5 times the gradient")


@pytest.mark.parametrize("evidence", [run(0.1), run(0.0), tried(run(0.1), CURE, 0.5)])
def test_usual_decay_is_sound_even_where_none_fits_better(evidence: Evidence) -> None:
    check_refuted(judge(evidence), "weight decay")


@pytest.mark.parametrize("evidence", [Evidence(), run(5.0, update=0.0)])
def test_without_decay_or_updates_it_is_untested(evidence: Evidence) -> None:
    check_untested(judge(evidence), "")
