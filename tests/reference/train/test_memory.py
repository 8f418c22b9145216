"""What cannot fit into memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from small import SETTINGS, VOCABULARY, small_model

from lossleuth.reference.train.memory import (
    FLOAT_BYTES,
    check_memory,
    least_bytes,
    memory_told_plainly,
    total_bytes,
)
from lossleuth.reference.train.model import ModelShape
from lossleuth.types.errors import BadInput

CPU = torch.device("cpu")


def shape(**changes: Any) -> ModelShape:
    return replace(small_model().shape, **changes)


def test_a_small_run_fits() -> None:
    check_memory(shape(), SETTINGS, CPU)
    assert least_bytes(shape(), SETTINGS) < total_bytes(CPU)


@pytest.mark.parametrize("change", [{"width": 10**9}, {"layers": 10**12}])
def test_a_model_that_cannot_fit_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(BadInput, match=r"GB of memory of cpu, found settings that need .* GB"):
        check_memory(shape(**change), SETTINGS, CPU)


@pytest.mark.parametrize("change", [{"batch": 10**12}, {"accumulation": 10**12}])
def test_batches_that_cannot_fit_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(BadInput, match="lower --width, --layers, --batch"):
        check_memory(shape(), replace(SETTINGS, **change), CPU)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_is_counted_with_gradient_and_two_moments(
    positions: str, tied: bool
) -> None:
    model = small_model(positions=positions, tied=tied)
    parameters = sum(p.numel() for p in model.parameters())
    tokens = SETTINGS.batch * SETTINGS.context
    activations = tokens * (VOCABULARY + SETTINGS.layers * SETTINGS.width)
    expected = (4 * parameters + activations) * FLOAT_BYTES + 16 * tokens
    assert least_bytes(model.shape, SETTINGS) == expected


def test_memory_that_torch_cannot_get_is_told_plainly() -> None:
    with pytest.raises(BadInput, match="room in memory for the model"), memory_told_plainly():
        torch.empty(1 << 60)


def test_other_errors_of_torch_pass() -> None:
    with pytest.raises(RuntimeError, match="shape"), memory_told_plainly():
        torch.zeros(2).view(3)
