"""The step's own noise, and what is below it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lossleuth.labs.precision.noise import BELOW, IRRELEVANT, Noise, noise_of
from lossleuth.labs.precision.reference import truth_of
from lossleuth.labs.precision.step import Step


def made(rows: int, seed: int) -> Step:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, 5, generator=generator)
    targets = torch.randint(0, 5, (rows,), generator=generator)
    return Step("test", logits, targets, torch.arange(rows) % 2 == 0)


def noise(step: Step) -> Noise:
    return noise_of(step, truth_of(step.logits_NV.numpy(), step.targets_N.numpy()))


def test_the_noise_of_the_update_is_how_far_batches_differ() -> None:
    """Half the distance of two halves estimates the error of the whole: checked over batches."""
    gradients, told = [], []
    for seed in range(200):
        step = made(16, seed)
        truth = truth_of(step.logits_NV.numpy(), step.targets_N.numpy())
        gradient = truth.gradient_NV.astype(float).sum(0)
        gradients.append(gradient)
        told.append((noise(step).update * np.linalg.norm(gradient)) ** 2)
    spread = np.var(np.stack(gradients), axis=0, ddof=1).sum()
    # Both are means over 200 samples of a square with about 4 degrees of freedom: 5 % each.
    assert np.mean(told) == pytest.approx(spread, rel=0.25)


def test_the_noise_of_the_loss_is_the_standard_error_of_its_mean() -> None:
    step = made(50, 0)
    losses = torch.nn.functional.cross_entropy(
        step.logits_NV.double(), step.targets_N, reduction="none"
    )
    assert noise(step).loss == pytest.approx(float(losses.std()) / math.sqrt(50), rel=1e-12)


def test_halves_that_agree_leave_no_noise() -> None:
    step = made(8, 0)
    twice = Step(
        "test",
        step.logits_NV.repeat_interleave(2, 0),
        step.targets_N.repeat_interleave(2),
        torch.arange(16) % 2 == 0,
    )
    assert noise(twice).update == 0


@pytest.mark.parametrize("which", ["loss", "update"])
def test_the_verdict_turns_where_the_noise_would_grow_by_a_hundredth(which: str) -> None:
    own = Noise(loss=0.5, update=0.25)
    size = getattr(own, which) * IRRELEVANT
    below, above = {"loss": 0.0, "update": 0.0}, {"loss": 0.0, "update": 0.0}
    below[which], above[which] = size * 0.999, size * 1.001
    assert own.verdict(**below) == BELOW == "irrelevant below the step's own noise"
    assert own.verdict(**above) == f"matters: {which}, +1 % noise"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_never_irrelevant(bad: float) -> None:
    assert Noise(0.1, 0.1).verdict(0.0, bad) == "breaks: not finite"
    assert Noise(0.1, 0.1).verdict(bad, 0.0) == "breaks: not finite"


def test_without_noise_every_error_matters() -> None:
    assert Noise(0.0, 0.0).verdict(0.0, 1e-20).startswith("matters")
    assert Noise(0.0, 0.0).verdict(0.0, 0.0) == BELOW
