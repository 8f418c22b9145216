"""From a change in a plan to its intervention."""

from __future__ import annotations

from pathlib import Path

import pytest

import lossleuth.interventions
from lossleuth.interventions.gradient.scale_gradient import ScaleGradient
from lossleuth.interventions.intervention import Intervention
from lossleuth.interventions.registry import make, modules
from lossleuth.types.change import Change

DOSES: dict[str, dict[str, float | str]] = {
    "differentiate_forward": {"functions": "Tanh"},
    "measure_backward": {"functions": "Tanh"},
    "cap_epsilon": {"value": 1e-8},
    "cap_lr": {"rate": 0.1},
    "scale_lr": {"factor": 0.5},
    "scale_gradient": {"factor": 2},
    "scale_lesson": {"factor": 2},
    "stretch_schedule": {"factor": 2},
    "clip_gradients": {"norm": 1.0},
    "shift_labels": {"offset": 1},
    "autocast": {"enabled": False},
}
FOLDER = Path(lossleuth.interventions.__path__[0])
NAMES = sorted(path.stem for path in FOLDER.glob("*/*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_the_folder_makes_the_intervention_of_its_name(name: str) -> None:
    made = make(Change.of(name, **DOSES.get(name, {})))
    assert isinstance(made, Intervention)
    assert type(made).__name__ == "".join(word.capitalize() for word in name.split("_"))


def test_no_two_folders_have_an_intervention_of_the_same_name() -> None:
    assert sorted(modules()) == NAMES


def test_options_reach_the_intervention() -> None:
    made = make(Change.of("scale_gradient", factor=3.0))
    assert isinstance(made, ScaleGradient)
    assert made._factor == 3.0


def test_an_unknown_change_or_option_is_an_error() -> None:
    with pytest.raises(KeyError):
        make(Change.of("wish_it_away"))
    with pytest.raises(TypeError):
        make(Change.of("scale_lr", amount=1))
