"""Checks of gradients: right ones pass, wrong ones fail by name, and doubt is admitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.gradcheck.check import Outcome, check_gradient


def tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


class Scaled(torch.autograd.Function):
    """tanh, whose backward is off by a factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        out = torch.tanh(x)
        ctx.save_for_backward(out)
        ctx.factor = factor
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors
        return grad * (1 - out * out) * ctx.factor, None


class LeavesTorch(torch.autograd.Function):
    """sin in numpy, with a right backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * torch.cos(x)


class OnlySeemsForward(LeavesTorch):
    """Claims a forward-mode derivative that is none."""

    @staticmethod
    def jvp(ctx: Any, x: Tensor) -> Tensor:
        return 3 * x


def network(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = torch.tanh(x @ weight)
    return x.square().mean()


# right gradients


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_right_torch_functions_pass(dtype: torch.dtype) -> None:
    x, w, b = (tensor(*s, dtype=dtype, seed=i) for i, s in enumerate([(4, 3), (3, 5), (5,)]))
    labels = torch.tensor([0, 4, 2, 2])
    assert check_gradient(lambda x, y, w, b: F.cross_entropy(x @ w + b, y), [x, labels, w, b])
    assert check_gradient(lambda x, w: (torch.sin(x), x @ w, labels), [x, w])
    assert check_gradient(lambda x: F.layer_norm(x, (3,)), [x])
    assert check_gradient(torch.exp, [torch.tensor(0.3, dtype=dtype)])


def test_a_module_in_float32_passes() -> None:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2))
    assert check_gradient(lambda x: layer(x).square().sum(), [tensor(5, 6, dtype=torch.float32)])


@pytest.mark.parametrize("causal", [True, False])
def test_attention_passes(causal: bool) -> None:
    q, k, v = (tensor(2, 2, 5, 4, seed=i) for i in range(3))
    assert check_gradient(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=causal), [q, k, v]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_right_numpy_gradients_pass(dtype: type) -> None:
    x = tensor(20, 4).numpy().astype(dtype)
    w, b = tensor(4, 3, seed=1).numpy().astype(dtype), np.full(3, 0.5, dtype)

    def loss(w: Any, b: Any) -> Any:
        return np.mean(np.tanh(x @ w + b) ** 2)

    def gradient(w: Any, b: Any) -> list[Any]:
        h = np.tanh(x @ w + b)
        back = 2 * h * (1 - h * h) / h.size
        return [x.T @ back, back.sum(0)]

    assert check_gradient(loss=loss, gradient=gradient, parameters=[w, b])
    halves = [g / 2 for g in gradient(w, b)]
    assert check_gradient(loss=loss, gradient=halves, parameters=[w, b]).wrong == (
        "parameter 0",
        "parameter 1",
    )


@pytest.mark.parametrize("function", [LeavesTorch, OnlySeemsForward])
def test_a_right_backward_of_a_function_that_leaves_torch_passes(function: Any) -> None:
    found = check_gradient(lambda x: function.apply(x).square(), [tensor(7)])
    assert found.outcome is Outcome.PASS
    assert found.whole.how == "differences of values"


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), depth=st.integers(1, 4), narrow=st.booleans())
def test_right_gradients_never_fail(seed: int, depth: int, narrow: bool) -> None:
    dtype = torch.float32 if narrow else torch.float64
    x, *weights = (tensor(4, 4, seed=seed + i, dtype=dtype) for i in range(depth + 1))
    assert check_gradient(network, [x, *weights], seed=seed).outcome is Outcome.PASS
    leaves = [t.clone().requires_grad_() for t in (x, *weights)]
    gradients = torch.autograd.grad(network(*leaves), leaves)
    found = check_gradient(loss=network, gradient=gradients, parameters=leaves, seed=seed)
    assert found.outcome is not Outcome.FAIL
    arrays = [t.detach().numpy() for t in leaves]

    def in_numpy(*given: Any) -> float:
        return float(network(*map(torch.from_numpy, given)))

    found = check_gradient(loss=in_numpy, gradient=gradients, parameters=arrays, seed=seed)
    assert found.outcome is not Outcome.FAIL


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), offset=st.floats(-1e3, 1e3))
def test_right_float32_gradients_of_what_nearly_cancels_never_fail(
    seed: int, offset: float
) -> None:
    w = tensor(50, seed=seed, dtype=torch.float32).numpy() + np.float32(offset)
    c = tensor(50, seed=seed + 1, dtype=torch.float32).numpy()
    at_zero = np.float32(c @ w)
    found = check_gradient(loss=lambda w: c @ w - at_zero, gradient=c, parameters=[w])
    assert found.outcome is not Outcome.FAIL


@pytest.mark.parametrize("seed", range(10))
def test_a_right_gradient_of_a_loss_that_secretly_rounds_never_fails(seed: int) -> None:
    found = check_gradient(
        loss=lambda w: np.exp(w.astype(np.float32)).sum(),
        gradient=np.exp,
        parameters=[tensor(5, seed=seed).numpy()],
    )
    assert found.outcome is not Outcome.FAIL


def test_a_gradient_that_is_zero_but_for_rounding_never_fails() -> None:
    for seed in range(20):
        x = tensor(3, 9, seed=seed)
        found = check_gradient(lambda x: F.softmax(x, -1).sum(), [x])
        assert found.outcome is not Outcome.FAIL


# wrong gradients


@pytest.mark.parametrize("which", [0, 7, 18])
def test_one_of_many_tensors_off_by_a_millionth_is_named(which: int) -> None:
    parameters = {f"w{i}": tensor(3, 4, seed=i) for i in range(19)}
    gradients = {name: torch.cos(p) for name, p in parameters.items()}
    gradients[f"w{which}"] = gradients[f"w{which}"] * (1 + 1e-6)

    def loss(*given: Tensor) -> Tensor:
        return torch.stack([torch.sin(p).sum() for p in given]).sum()

    found = check_gradient(loss=loss, gradient=gradients, parameters=parameters)
    assert found.outcome is Outcome.FAIL
    assert found.wrong == (f"w{which}",)

    def numpy_loss(*given: Any) -> float:
        return float(sum(np.sin(p).sum() for p in given))

    arrays = {name: p.numpy() for name, p in parameters.items()}
    found = check_gradient(loss=numpy_loss, gradient=gradients, parameters=arrays)
    assert found.wrong == (f"w{which}",)
    assert not found


@pytest.mark.parametrize("factor", [1 + 1e-6, 0.0, -1.0, 2.0])
def test_a_custom_function_with_a_wrong_backward_fails(factor: float) -> None:
    x, y = tensor(6), tensor(6, seed=1)
    found = check_gradient(lambda x, y: (torch.exp(x) * Scaled.apply(y, factor)).sum(), [x, y])
    assert found.outcome is Outcome.FAIL
    assert found.wrong == ("input 1",)
    assert check_gradient(lambda x, y: (x * Scaled.apply(y, 1.0)).sum(), [x, y])


@pytest.mark.parametrize("sign", [0.0, -1.0])
def test_a_zeroed_and_a_flipped_bias_gradient_fail(sign: float) -> None:
    x, w, b = tensor(8, 3), tensor(3, 2, seed=1), tensor(2, seed=2)
    w_, b_ = w.clone().requires_grad_(), b.clone().requires_grad_()
    F.linear(x, w_.T, b_).square().mean().backward()
    found = check_gradient(
        loss=lambda w, b: F.linear(x, w.T, b).square().mean(),
        gradient={"w": w_.grad, "b": sign * b_.grad},  # type: ignore[operator]
        parameters={"w": w, "b": b},
    )
    assert found.wrong == ("b",)


def test_a_detached_bias_fails_although_forward_mode_loses_it_too() -> None:
    x, w, b = tensor(8, 3), tensor(2, 3, seed=1), tensor(2, seed=2)
    found = check_gradient(lambda w, b: F.linear(x, w, b.detach()).square().mean(), [w, b])
    assert found.wrong == ("input 1",)


def test_no_number_is_a_wrong_gradient_of_a_function_with_a_slope() -> None:
    x, y = torch.tensor([1.0, 0.0, 4.0]), torch.tensor([2.0])
    # The well-known trap: the branch not taken gives 0 * inf.
    found = check_gradient(
        lambda x, y: torch.where(x > 0.5, (x - 0.5).sqrt(), x).sum() * y.sum(), [x, y]
    )
    assert found.wrong == ("input 0",)


@pytest.mark.parametrize("seed", range(12))
def test_a_direction_at_right_angles_to_the_gradient_is_not_the_last_word(seed: int) -> None:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2))
    x = tensor(5, 6, dtype=torch.float32)
    assert check_gradient(lambda x: layer(x).square().sum(), [x], seed=seed)


def test_a_right_gradient_is_confirmed_by_few_values() -> None:
    calls = []

    def loss(w: np.ndarray) -> float:
        calls.append(1)
        return float(np.sin(w).sum())

    w = np.linspace(0.1, 1.0, 40)
    assert check_gradient(loss=loss, gradient=np.cos, parameters=[w])
    # The middle thrice, to see that it repeats, and five steps to either side.
    assert len(calls) == 13
    calls.clear()
    assert not check_gradient(loss=loss, gradient=lambda w: 1.00001 * np.cos(w), parameters=[w])
    assert len(calls) > 40


# doubt


def test_noise_leaves_doubt() -> None:
    generator = torch.Generator().manual_seed(0)
    x = tensor(5)

    def noisy(x: Tensor) -> Tensor:
        return (x**2).sum() + 0.1 * torch.randn((), generator=generator, dtype=x.dtype)

    assert check_gradient(noisy, [x]).outcome is Outcome.CANNOT_TELL
    for factor in (2.0, 2.0001):
        found = check_gradient(loss=noisy, gradient=[factor * x], parameters=[x])
        assert found.outcome is Outcome.CANNOT_TELL


def test_a_forward_mode_that_coarse_values_cannot_confirm_condemns_nothing() -> None:
    found = check_gradient(lambda x: OnlySeemsForward.apply(x).sum() + 1e14, [tensor(5)])
    assert found.outcome is Outcome.CANNOT_TELL


def test_no_number_leaves_doubt() -> None:
    x = tensor(5)
    assert check_gradient(lambda x: (x - 9).sqrt().sum(), [x]).outcome is Outcome.CANNOT_TELL
    found = check_gradient(loss=lambda x: float("nan"), gradient=[x], parameters=[x])
    assert found.outcome is Outcome.CANNOT_TELL
    assert "nan" in found.picture()


def test_a_kink_leaves_doubt_about_any_slope_between_its_sides() -> None:
    zero = np.zeros(3)
    for claimed in (zero, zero + 1, zero + 0.3):
        found = check_gradient(
            loss=lambda w: np.maximum(w, 0).sum(), gradient=claimed, parameters=[zero]
        )
        assert found.outcome is not Outcome.FAIL


# form


def test_the_picture_of_differences_is_a_v() -> None:
    w = tensor(6).numpy()
    found = check_gradient(loss=lambda w: np.exp(w).sum(), gradient=np.exp, parameters=[w])
    bars = [line.count("#") for line in found.picture().splitlines()]
    assert found
    # Curvature falls with the square of the step, then rounding rises.
    assert bars[:12] == sorted(bars[:12], reverse=True)
    assert bars[0] > min(bars) + 10
    assert bars[-1] > min(bars) + 5


def test_the_picture_of_a_wrong_gradient_is_flat() -> None:
    w = tensor(6).numpy()
    found = check_gradient(loss=lambda w: np.exp(w).sum(), gradient=-w, parameters=[w])
    bars = [line.count("#") for line in found.picture().splitlines()]
    assert min(bars) > 30


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({}, TypeError, "expected function and inputs, or loss"),
        ({"function": torch.exp}, TypeError, "expected inputs beside function"),
        ({"function": torch.exp, "inputs": [1]}, TypeError, "floating-point tensor among"),
        ({"loss": torch.sum}, TypeError, "expected loss, gradient and parameters together"),
        (
            {"loss": np.sum, "gradient": np.ones(2), "parameters": [np.ones(3)]},
            ValueError,
            r"expected gradients of shapes \(3,\), found \(2,\)",
        ),
        (
            {"loss": np.sum, "gradient": {"a": 1}, "parameters": {"b": 1.0}},
            ValueError,
            "found none for b",
        ),
    ],
)
def test_wrong_arguments_get_a_sentence(
    arguments: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        check_gradient(**arguments)


def test_a_failure_is_not_located_where_that_is_not_wanted() -> None:
    found = check_gradient(
        loss=lambda a, b: float((a**2).sum() + (b**2).sum()),
        gradient=lambda a, b: [2 * a, 3 * b],
        parameters=[np.ones(2), np.ones(3)],
        locate=False,
    )
    assert found.outcome is Outcome.FAIL
    assert found.parts == ()
