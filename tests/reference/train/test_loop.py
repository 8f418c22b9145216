"""The training loop."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small import SETTINGS, small_loader, small_model, small_tokens

from lossleuth.reference.train import loop
from lossleuth.reference.train.data import IGNORED, Batch
from lossleuth.reference.train.loop import clip, make_optimizer, train
from lossleuth.reference.train.loss import NoSupervisedToken
from lossleuth.reference.train.settings import TrainSettings


def run(settings: TrainSettings, load: Any, **changes: Any) -> tuple[list[Any], Any]:
    model = small_model(**changes)
    steps = list(train(model, make_optimizer(model, settings), load, settings))
    return steps, model


def test_one_batch_is_overfitted_below_a_twentieth_of_a_nat() -> None:
    settings = replace(SETTINGS, steps=300, lr=1e-2, width=32, weight_decay=0.0, batch=8, warmup=10)
    fixed = small_loader(batch=8)(0)
    steps, _ = run(settings, lambda k: fixed, width=32)
    assert abs(steps[0].loss - math.log(20)) < 0.1
    assert steps[-1].loss < 0.05


def test_the_loss_of_structured_data_falls_below_its_unigram_entropy() -> None:
    settings = replace(SETTINGS, steps=150, batch=16)
    steps, _ = run(settings, small_loader(batch=16))
    shares = np.bincount(small_tokens()) / len(small_tokens())
    unigram = -sum(p * math.log(p) for p in shares if p)
    assert steps[-1].loss < unigram - 0.5


def test_accumulated_micro_batches_are_one_batch_even_with_unequal_tokens() -> None:
    """The gradient is of the mean over tokens, not of the mean over micro-batches."""
    whole = small_loader(batch=8)(0)
    whole.targets_BT[:4, 3:] = IGNORED
    halves = [
        Batch(whole.inputs_BT[part], whole.targets_BT[part], whole.windows[part])
        for part in (slice(0, 4), slice(4, 8))
    ]
    one = replace(SETTINGS, steps=1, batch=8)
    two = replace(SETTINGS, steps=1, batch=4, accumulation=2)
    (step_one,), _ = run(one, lambda k: whole)
    (step_two,), _ = run(two, lambda k: halves[k])
    assert step_one.tokens == step_two.tokens == 4 * 3 + 4 * 16
    assert step_two.loss == pytest.approx(step_one.loss, rel=1e-6)
    assert step_two.norm_before_clip == pytest.approx(step_one.norm_before_clip, rel=1e-5)
    naive = np.mean([run(one, lambda k, h=half: h)[0][0].loss for half in halves])
    assert abs(naive - step_one.loss) > 1e-4


def test_updates_equal_batches_over_accumulation_and_every_parameter_moves() -> None:
    loaded: list[int] = []
    load = small_loader()
    settings = replace(SETTINGS, steps=4, accumulation=3)

    def counting(k: int) -> Batch:
        loaded.append(k)
        return load(k)

    before = {name: p.detach().clone() for name, p in small_model().named_parameters()}
    steps, model = run(settings, counting)
    assert loaded == list(range(12))
    assert [step.applied for step in steps] == [True] * 4
    assert all(p.ne(before[name]).any() for name, p in model.named_parameters())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_non_finite_step_is_not_applied_and_names_tensor_and_windows(value: float) -> None:
    model = small_model()
    settings = replace(SETTINGS, steps=3)
    optimizer = make_optimizer(model, settings)
    load = small_loader()
    spoiled = 1

    def spoil(_module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        bad = torch.equal(inputs[0], load(spoiled).inputs_BT)
        return output * value if bad else output

    model.embedding.register_forward_hook(spoil)
    weights = []
    steps = []
    for step in train(model, optimizer, load, settings):
        steps.append(step)
        weights.append(model.final_norm.weight.detach().clone())
    assert [step.applied for step in steps] == [True, False, True]
    assert steps[1].first_bad == "output of embedding"
    assert steps[1].windows == load(spoiled).windows.tolist()
    assert not math.isfinite(steps[1].loss)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_a_bad_gradient_with_a_good_loss_is_not_applied_either() -> None:
    model = small_model()
    settings = replace(SETTINGS, steps=1)
    weight = model.get_parameter("blocks.0.up.weight")
    weight.register_hook(lambda gradient: gradient * math.inf)
    before = weight.detach().clone()
    (step,) = train(model, make_optimizer(model, settings), small_loader(), settings)
    assert math.isfinite(step.loss)
    assert not step.applied
    assert step.first_bad == "gradient of blocks.0.up.weight"
    assert torch.equal(weight, before)


def test_a_step_with_no_supervised_token_raises() -> None:
    batch = small_loader()(0)
    batch.targets_BT.fill_(IGNORED)
    with pytest.raises(NoSupervisedToken):
        run(SETTINGS, lambda k: batch)


def test_norms_before_and_after_clipping_are_those_of_the_gradient() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5)]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape)
    before = torch.cat([p.grad for p in parameters if p.grad is not None])
    assert clip(parameters, 0.5) == pytest.approx((before.norm().item(), 0.5))
    after = torch.cat([p.grad for p in parameters if p.grad is not None])
    assert torch.allclose(after, before * 0.5 / before.norm())
    assert clip(parameters, 10.0) == pytest.approx((0.5, 0.5))
    assert clip(parameters, 0.0) == pytest.approx((0.5, 0.5))


def test_clipping_a_non_finite_gradient_leaves_it_as_it_is() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([1.0, torch.inf])
    assert clip([parameter], 1.0) == (math.inf, math.inf)
    assert parameter.grad.tolist() == [1.0, math.inf]


def test_only_matrices_decay() -> None:
    model = small_model(positions="learned")
    decayed, kept = make_optimizer(model, SETTINGS).param_groups
    assert decayed["weight_decay"] == SETTINGS.weight_decay
    assert kept["weight_decay"] == 0
    assert {p.dim() for p in decayed["params"]} == {2}
    assert {p.dim() for p in kept["params"]} == {1}
    assert len(decayed["params"]) + len(kept["params"]) == len(list(model.parameters()))


def test_bfloat16_trains_with_float32_weights() -> None:
    settings = replace(SETTINGS, steps=60, precision="bfloat16", batch=8)
    steps, model = run(settings, small_loader(batch=8))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert steps[-1].loss < steps[0].loss - 0.5


def test_the_rate_of_each_step_is_the_schedules() -> None:
    steps, _ = run(SETTINGS, small_loader())
    assert steps[0].lr == pytest.approx(SETTINGS.lr / 2)
    assert steps[1].lr == SETTINGS.lr
    assert steps[-1].lr == pytest.approx(SETTINGS.lr * SETTINGS.lr_floor)


@pytest.mark.parametrize("kernel", ["auto", "lossleuth", "torch"])
def test_the_loss_is_computed_by_whom_the_settings_name(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = []
    real = loop.mean_loss

    def noted(*arguments: Any) -> torch.Tensor:
        named.append(arguments[3])
        return real(*arguments)

    monkeypatch.setattr(loop, "mean_loss", noted)
    model = small_model()
    settings = replace(SETTINGS, steps=2, loss_kernel=kernel)
    list(train(model, make_optimizer(model, settings), small_loader(), settings))
    assert named == [kernel, kernel]
