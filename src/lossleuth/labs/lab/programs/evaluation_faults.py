"""An evaluation every few steps, and faults in it: nothing of this touches the weights.

Shapes: B rows, T positions, V tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.labs.lab.programs.made_up_text import PAD
from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import IGNORED, Batch, Parts, Settings

EVERY = 40
# Rows of each held-back batch, and the share of channels that is dropped in training.
ROWS = (8, 8, 8, 3)
DROPPED = 0.1
SMOOTHING, PENALTY = 0.1, 0.01

Score = Callable[[Tensor], Tensor]
# From the model's scores and the held-back batches: what is reported, a loss.
Measure = Callable[[Score, Sequence[Batch]], float]


def held_back(settings: Settings) -> list[Batch]:
    """Batches of texts that end early, filled up with padding that has no label."""
    text = settings.text.tokens()
    generator = torch.Generator().manual_seed(settings.seed + 1)
    found = []
    for number, rows in enumerate(ROWS):
        starts_B = torch.randint(0, len(text) - settings.length - 1, (rows,), generator=generator)
        window_BT = text[starts_B[:, None] + torch.arange(settings.length + 1)]
        # The last batch has the short texts.
        longest = settings.length - 1 if number + 1 < len(ROWS) else settings.length // 2
        ends_B = torch.randint(settings.length // 4, longest, (rows,), generator=generator)
        ends_B[0] = longest
        past_BT = torch.arange(settings.length + 1) >= ends_B[:, None]
        padded_BT = window_BT.masked_fill(past_BT, PAD)
        labels_BT = window_BT.masked_fill(past_BT, IGNORED)
        found.append(Batch(padded_BT[:, :-1], labels_BT[:, 1:]))
    return found


def with_evaluation(parts: Parts, measure: Measure, *, switched: bool = True) -> Parts:
    """Dropout in training, and every few updates an evaluation, with the mode switched or not."""
    models: list[nn.Module] = []
    batches = held_back(parts.settings)
    counter = [0]

    def model(settings: Settings) -> nn.Module:
        models.append(parts.model(settings))
        return models[-1]

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        x_BTC = F.dropout(parts.embed(model, tokens_BT), DROPPED, model.training)
        return parts.decode(model, x_BTC)

    def update(optimizer: Any, closure: Any = None) -> None:
        parts.update(optimizer, closure)
        counter[0] += 1
        if counter[0] % EVERY == 0:
            trained = models[-1]
            trained.train(not switched)
            # What is drawn in an evaluation leaves the training's own draws alone.
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                loss = measure(lambda tokens_BT: forward(trained, tokens_BT), batches)
            trained.train()
            print(f"evaluation: loss {loss:.4f}  perplexity {math.exp(loss):.4f}", flush=True)

    return replace(parts, model=model, forward=forward, update=update)


def over_all_tokens(score: Score, batches: Sequence[Batch]) -> float:
    """What is right: the losses of all tokens, divided by their number once."""
    total, count = 0.0, 0
    for inputs_BT, targets_BT in batches:
        scores_NV, targets_N = score(inputs_BT).flatten(0, 1), targets_BT.flatten()
        losses = F.cross_entropy(scores_NV, targets_N, ignore_index=IGNORED, reduction="sum")
        total += losses.item()
        count += int((targets_N != IGNORED).sum())
    return total / count


@fault()
def evaluated(parts: Parts, dose: float) -> Parts:
    """No fault: the evaluation as it should be."""
    return with_evaluation(parts, over_all_tokens)


@fault()
def perplexity_of_total(parts: Parts, dose: float) -> Parts:
    """The perplexity is that of a smoothed loss and a penalty for large scores."""

    def measure(score: Score, batches: Sequence[Batch]) -> float:
        totals = []
        for inputs_BT, targets_BT in batches:
            scores_NV, targets_N = score(inputs_BT).flatten(0, 1), targets_BT.flatten()
            loss = F.cross_entropy(scores_NV, targets_N, label_smoothing=SMOOTHING)
            loss = loss + PENALTY * scores_NV.square().mean()
            totals.append(loss.item())  # planted: perplexity_of_total
        return sum(totals) / len(totals)

    return with_evaluation(parts, measure)


@fault()
def mean_of_means(parts: Parts, dose: float) -> Parts:
    """Means of batches are averaged, though one batch is much smaller."""

    def measure(score: Score, batches: Sequence[Batch]) -> float:
        means = []
        for inputs_BT, targets_BT in batches:
            scores_NV, targets_N = score(inputs_BT).flatten(0, 1), targets_BT.flatten()
            mean = F.cross_entropy(scores_NV, targets_N, ignore_index=IGNORED)
            means.append(mean.item())  # planted: mean_of_means
        return sum(means) / len(means)

    return with_evaluation(parts, measure)


@fault()
def pads_in_metric(parts: Parts, dose: float) -> Parts:
    """Padding is a token like any other to the evaluation."""

    def measure(score: Score, batches: Sequence[Batch]) -> float:
        total, count = 0.0, 0
        for inputs_BT, targets_BT in batches:
            targets_N = targets_BT.masked_fill(targets_BT == IGNORED, PAD).flatten()
            scores_NV = score(inputs_BT).flatten(0, 1)
            losses = F.cross_entropy(scores_NV, targets_N, reduction="sum")
            total += losses.item()  # planted: pads_in_metric
            count += len(targets_N)
        return total / count

    return with_evaluation(parts, measure)


@fault()
def metric_offset(parts: Parts, dose: float) -> Parts:
    """Targets that are shifted already are shifted once more."""

    def measure(score: Score, batches: Sequence[Batch]) -> float:
        shifted = [Batch(inputs_BT, targets_BT.roll(-1, 1)) for inputs_BT, targets_BT in batches]
        total, count = 0.0, 0
        for inputs_BT, targets_BT in shifted:
            scores_NV, targets_N = score(inputs_BT)[:, :-1].flatten(0, 1), targets_BT[:, :-1]
            losses = F.cross_entropy(scores_NV, targets_N.flatten(), reduction="sum")
            total += losses.item()  # planted: metric_offset
            count += int((targets_N != IGNORED).sum())
        return total / count

    return with_evaluation(parts, measure)


@fault()
def metric_train_mode(parts: Parts, dose: float) -> Parts:
    """Nobody calls `eval`."""

    def measure(score: Score, batches: Sequence[Batch]) -> float:
        total, count = 0.0, 0
        for inputs_BT, targets_BT in batches:
            scores_NV, targets_N = score(inputs_BT).flatten(0, 1), targets_BT.flatten()
            losses = F.cross_entropy(scores_NV, targets_N, reduction="sum")
            total += losses.item()  # planted: metric_train_mode
            count += int((targets_N != IGNORED).sum())
        return total / count

    return with_evaluation(parts, measure, switched=False)
