"""The gradient that a program got against the true one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from steps import InNumpy, SmallModel, batch, recorded_step, shifted_loss
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from lossleuth.findings.gradient import GradientTruth
from lossleuth.probes.gradient.gradient_truth import gradient_truth, replayed_gradients
from lossleuth.tape.replay.replay import Cuts
from lossleuth.tape.window import Window


def truth_of(window: Window) -> GradientTruth:
    return gradient_truth(window, window.backwards[0])


def wrong(truth: GradientTruth) -> set[str]:
    return {row.name for row in truth.parameters if row.error > 20 * row.floor + 1e-6}


def in_bf16(model: nn.Module, tokens: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return shifted_loss(model, tokens)


def with_dropout(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = F.dropout(model(tokens[:, :-1]), 0.3)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def in_place(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1]) * 1.0
    logits[:, 0] *= 2
    logits[..., 3:5].add_(0.5)
    logits.clamp_(-3, 3)
    view = logits.view(-1, logits.shape[-1])
    view[1] = view[0] + view[1]
    return F.cross_entropy(view, tokens[:, 1:].flatten())


def checkpointed(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = checkpoint(model, tokens[:, :-1], use_reentrant=False)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def reentrant(model: nn.Module, tokens: Tensor) -> Tensor:
    # This kind wants an input that asks for a gradient.
    one = torch.ones(1, requires_grad=True)
    logits = checkpoint(lambda t, x: model(t) * x, tokens[:, :-1], one, use_reentrant=True)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def routed(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    weights, chosen = logits.softmax(-1).topk(3, -1)
    picked = torch.zeros_like(logits).scatter(-1, chosen, weights)
    rows = (picked.sum(-1) > 0.1).nonzero(as_tuple=True)
    return shifted_loss(model, tokens) + picked[rows].square().mean()


def out_variant(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    with torch.no_grad():
        buffer = torch.empty_like(logits)
        torch.mul(logits.detach(), 0.5, out=buffer)
    return F.cross_entropy((logits + buffer).flatten(0, 1), tokens[:, 1:].flatten())


def loaded(model: nn.Module, tokens: Tensor) -> Tensor:
    saved = {name: value * 0.9 for name, value in model.state_dict().items()}
    model.load_state_dict(saved)
    return shifted_loss(model, tokens)


def shrunk(model: nn.Module, tokens: Tensor) -> Tensor:
    """Parameters are written to without autograd, as an update by hand does."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    for parameter in model.parameters():
        parameter.data[0] = 0.5 * parameter.data[0]
    return shifted_loss(model, tokens)


HEALTHY = {
    "plain": shifted_loss,
    "loaded": loaded,
    "shrunk": shrunk,
    "dropout": with_dropout,
    "in place": in_place,
    "checkpointed": checkpointed,
    "reentrant": reentrant,
    "routed": routed,
    "out": out_variant,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_gradient_is_true_to_its_floor(name: str) -> None:
    truth = truth_of(recorded_step(HEALTHY[name]))
    assert truth.untested is None
    assert truth.error < 1e-5
    assert truth.error < 10 * truth.floor
    assert truth.cosine == pytest.approx(1)
    assert truth.scale == pytest.approx(1, abs=1e-5)


def test_low_precision_is_judged_by_its_own_floor() -> None:
    truth = truth_of(recorded_step(in_bf16))
    assert truth.floor > 1e-4
    assert truth.error < 3 * truth.floor


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient * 3


def test_a_wrong_backward_makes_everything_before_it_wrong_and_nothing_after_it() -> None:
    def plant(model: SmallModel) -> None:
        model.between = Tripled.apply

    truth = truth_of(recorded_step(change=plant))
    assert truth.error > 0.1
    assert wrong(truth) == {
        "tokens.weight",
        "positions.weight",
        "norm.weight",
        "norm.bias",
        "qkv.weight",
        "qkv.bias",
    }


@pytest.mark.parametrize("factor", [1.001, 3.0, 0.0, -1.0])
def test_a_hook_that_changes_one_gradient_is_seen_in_that_one(factor: float) -> None:
    def plant(model: SmallModel) -> None:
        model.up.bias.register_hook(lambda gradient: gradient * factor)

    truth = truth_of(recorded_step(change=plant))
    assert wrong(truth) == {"up.bias"}


def test_a_cut_is_part_of_the_program_and_opens_on_demand() -> None:
    def plant(model: SmallModel) -> None:
        model.between = lambda h: h.detach()

    window = recorded_step(change=plant)
    truth = truth_of(window)
    assert truth.error < 10 * truth.floor
    run = window.backwards[0]
    names = window.names
    opened = replayed_gradients(window.tape, run, float64=True, cuts=Cuts.OPENED)
    kept = replayed_gradients(window.tape, run, float64=True)
    lost = {names[i] for i in opened if kept[i] is None and opened[i] is not None}
    assert "qkv.weight" in lost
    assert "head.weight" not in lost


def test_a_loss_from_before_the_window_is_untested_and_not_wrong() -> None:
    window = recorded_step()
    window.backwards[0].roots[0] = None
    assert truth_of(window).untested is not None


def test_the_replay_gives_the_very_gradient_of_a_float64_model() -> None:
    window = recorded_step()
    torch.manual_seed(0)
    model = SmallModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    shifted_loss(model, batch()).backward()
    optimizer.step()
    model.double().zero_grad()
    shifted_loss(model, batch()).backward()
    replayed = replayed_gradients(window.tape, window.backwards[0], float64=True)
    for number, gradient in replayed.items():
        expected = model.get_parameter(window.names[number]).grad
        assert gradient is not None
        torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-13)


class FromNumpy(InNumpy):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.from_numpy(np.tanh(x.detach().numpy())) * 1.0
        ctx.save_for_backward(out)
        return out


@torch.library.custom_op("lossleuth_tests::double_it", mutates_args=())
def double_it(x: Tensor) -> Tensor:
    return x * 2


double_it.register_autograd(lambda ctx, gradient: gradient * 2)


class WithNoise(InNumpy):
    """Never gives the same: it cannot be measured."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        noise = np.random.default_rng().standard_normal(tuple(x.shape)).astype(np.float32)
        out = torch.from_numpy(np.tanh(x.detach().numpy()) + noise)
        ctx.save_for_backward(out)
        return out


class Wrong(InNumpy):
    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return InNumpy.backward(ctx, gradient) * 1.5


@pytest.mark.parametrize("function", [InNumpy.apply, FromNumpy.apply])
def test_what_lies_behind_work_outside_torch_is_judged_where_that_was_measured(
    function: Any,
) -> None:
    def plant(model: SmallModel) -> None:
        model.between = function

    truth = truth_of(recorded_step(change=plant))
    assert not [row.name for row in truth.parameters if row.untested]
    assert "qkv.weight" in {row.name for row in truth.parameters}
    assert truth.error < min(10 * truth.floor, 1e-5)


@pytest.mark.parametrize("function", [WithNoise.apply, Wrong.apply, double_it])
def test_what_lies_behind_opaque_work_is_untested_and_the_rest_is_judged(function: Any) -> None:
    def plant(model: SmallModel) -> None:
        model.between = function

    truth = truth_of(recorded_step(change=plant))
    untested = {row.name for row in truth.parameters if row.untested}
    assert "qkv.weight" in untested
    assert "head.weight" not in untested
    assert "down.weight" not in untested
    assert all("opaque" in row.untested for row in truth.parameters if row.untested)
    assert truth.error < 10 * truth.floor
    assert truth.untested is None


def test_a_loss_that_depends_on_a_gradient_is_untested_and_not_wrong() -> None:
    window = recorded_step()
    window.backwards[0].creates_graph = True
    truth = truth_of(window)
    assert truth.untested is not None
    assert "higher order" in truth.untested


def test_a_gradient_that_is_doubled_has_twice_the_scale() -> None:
    def plant(model: SmallModel) -> None:
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient * 2)

    truth = truth_of(recorded_step(change=plant))
    assert truth.scale == pytest.approx(2, abs=1e-5)
    assert truth.cosine == pytest.approx(1)
