"""Without what keeps a model from fitting."""

from __future__ import annotations

from lossleuth.challenges.regularisation import CHALLENGES
from lossleuth.types.challenge import Bias
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Made, ParameterGroup, RunSettings


def test_fitting_better_never_counts_against_a_run() -> None:
    assert {challenge.bias for challenge in CHALLENGES} == {Bias.FITS}


def test_decay_is_switched_off_where_there_is_some() -> None:
    def names(decay: float | None) -> set[str]:
        made = Made("train.py:5", [ParameterGroup(weight_decay=decay)])
        run = Evidence(settings=RunSettings(optimizers=[made]))
        return {c.change.name for c in CHALLENGES if c.applies(run)}

    assert names(0.1) == {"no_decay", "no_dropout"}
    assert names(0.0) == names(None) == {"no_dropout"}
