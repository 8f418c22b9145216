"""Naming the first bad tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small import small_loader, small_model

from lossleuth.reference.train.nonfinite import bad_parameter, first_bad_tensor


@pytest.mark.parametrize(
    ("module", "value"), [("blocks.1.attention.out", torch.nan), ("embedding", torch.inf)]
)
def test_the_module_that_made_it_is_named(module: str, value: float) -> None:
    model = small_model()

    def spoil(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output.index_fill(0, torch.tensor([0]), value)

    model.get_submodule(module).register_forward_hook(spoil)
    assert first_bad_tensor(model, [small_loader()(0)]) == f"output of {module}"


def test_a_bad_parameter_is_named_before_what_follows_from_it() -> None:
    model = small_model()
    with torch.no_grad():
        model.get_parameter("blocks.0.up.bias")[3] = torch.nan
    assert first_bad_tensor(model, [small_loader()(0)]) == "parameter blocks.0.up.bias"


def test_a_bad_gradient_is_named_in_the_order_of_the_backward_pass() -> None:
    model = small_model()
    for name in ("blocks.0.up.bias", "blocks.1.down.bias"):
        parameter = model.get_parameter(name)
        parameter.grad = torch.full_like(parameter, torch.inf)
    assert first_bad_tensor(model, [small_loader()(0)]) == "gradient of blocks.1.down.bias"


def test_looking_leaves_no_hook_behind() -> None:
    model = small_model()
    first_bad_tensor(model, [small_loader()(0)])
    assert all(not module._forward_hooks for module in model.modules())


def test_finite_gradients_whose_norm_overflows_are_told_by_the_largest() -> None:
    model = small_model()
    for name, size in (("blocks.0.up.bias", 1e20), ("blocks.1.down.bias", 3e30)):
        parameter = model.get_parameter(name)
        parameter.grad = torch.full_like(parameter, size)
    assert first_bad_tensor(model, [small_loader()(0)]) == (
        "norm of the gradient (largest entry 3e+30, in blocks.1.down.bias)"
    )


def test_a_sound_model_has_no_bad_parameter() -> None:
    model = small_model()
    assert bad_parameter(model) is None
    with torch.no_grad():
        model.get_parameter("final_norm.bias")[0] = torch.inf
    assert bad_parameter(model) == "parameter final_norm.bias"
