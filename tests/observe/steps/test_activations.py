"""Sizes of outputs."""

from __future__ import annotations

import torch
from torch import nn

from lossleuth.observe.steps.activations import Activations


def test_rms_largest_and_zero_share_of_each_module_are_taken_once_per_step() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    activations = Activations()
    assert not activations
    activations.add(model[1], torch.tensor([[3.0, 0.0], [-4.0, 0.0]]))
    activations.add(model[0], torch.tensor([1]))
    taken = activations.take(7)
    assert taken["step"] == 7
    assert taken["modules"] == {"1": [2.5, 4.0, 0.5]}
    assert not activations
