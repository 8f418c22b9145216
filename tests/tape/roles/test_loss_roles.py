"""Which loss of a step is the language model's."""

from __future__ import annotations

import torch
from steps import recorded_step, scores_of
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.loss.true_loss import true_loss
from lossleuth.tape.roles.loss_roles import loss_read


def test_of_several_losses_the_one_that_is_read_counts() -> None:
    def two(model: nn.Module, tokens: Tensor) -> Tensor:
        scores, targets = scores_of(model, tokens)
        own = F.cross_entropy(scores, targets)
        own.item()
        return own + F.cross_entropy(scores[:4] * 0.5, targets[:4])

    window = recorded_step(two)
    assert loss_read(window) == 0
    assert true_loss(window).count == 24
    assert loss_read(recorded_step()) is None


def test_the_loss_of_an_evaluation_that_is_read_is_not_that_of_the_step() -> None:
    def evaluating(model: nn.Module, tokens: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            scores, targets = scores_of(model, tokens[:2])
            F.cross_entropy(scores, targets).item()
        scores, targets = scores_of(model, tokens)
        return F.cross_entropy(scores, targets)

    window = recorded_step(evaluating)
    assert loss_read(window) is None
    # All 24 targets of the step, and not the 16 of the evaluation.
    assert true_loss(window).count == 24


def test_a_measurement_of_the_scores_that_are_trained_counts() -> None:
    def measuring(model: nn.Module, tokens: Tensor) -> Tensor:
        scores, targets = scores_of(model, tokens)
        with torch.no_grad():
            F.cross_entropy(scores, targets).item()
        return scores.square().mean()

    assert loss_read(recorded_step(measuring)) == 0
