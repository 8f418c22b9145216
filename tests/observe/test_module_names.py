"""Names of parameters and modules."""

from __future__ import annotations

import torch
from torch import nn

from lossleuth.observe.module_names import module_names, parameter_names


def test_the_model_names_its_parameters_even_inside_a_wrapper() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    wrapper = nn.Module()
    wrapper.module = model
    assert parameter_names(list(model.parameters())) == [
        "0.weight",
        "0.bias",
        "1.0.weight",
        "1.0.bias",
    ]
    assert wrapper.module is model


def test_two_models_each_name_their_own() -> None:
    one, other = nn.Linear(2, 3), nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 5))
    names = parameter_names([*one.parameters(), *other.parameters()])
    assert names[:2] == ["weight", "bias"]
    assert names[2:] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_a_parameter_of_nobody_is_named_by_place_and_shape() -> None:
    assert parameter_names([torch.zeros(4, 5), torch.zeros(())]) == [
        "tensor 0 (4x5)",
        "tensor 1 ()",
    ]


def test_modules_are_named_from_the_outermost() -> None:
    model = nn.Sequential(nn.Sequential(nn.ReLU()))
    names = module_names()
    assert names[model[0][0]] == "0.0"
    assert names[model] == "Sequential"
