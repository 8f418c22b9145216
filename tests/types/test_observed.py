"""What is observed of a run."""

from __future__ import annotations

from lossleuth.types.observed import Made, ParameterGroup, RunSettings, Step


def test_a_step_has_the_scalars_that_are_known_and_no_others() -> None:
    step = Step.of({"step": 3, "loss": 2.5, "memory_mb": 100.0})
    assert step == Step(3, loss=2.5)
    assert step.lr is None


def test_groups_are_those_of_all_optimizers() -> None:
    groups = [ParameterGroup(weight_decay=0.1), ParameterGroup(weight_decay=0.0)]
    assert RunSettings([Made(groups=groups[:1]), Made(groups=groups[1:])]).groups == groups
