"""Statistics of batches that are kept for later."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from loss_layouts import Options, step_of
from steps import WIDTH, SmallModel, batch, recorded_step, shifted_loss
from torch import Tensor, nn

from lossleuth.findings.model import Leaks
from lossleuth.probes.model.leaks import leaks
from lossleuth.probes.model.running_statistics import running_statistics
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


class ByHand(nn.Module):
    """Batch normalisation over rows and positions that keeps its statistics, or does not."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.mean, self.variance = torch.zeros(WIDTH), torch.ones(WIDTH)

    def forward(self, h: Tensor) -> Tensor:
        mean, variance = h.mean((0, 1)), h.var((0, 1))
        with torch.no_grad():
            if self.way == "other tensors":
                self.mean = 0.9 * self.mean + 0.1 * mean
                self.variance = 0.9 * self.variance + 0.1 * variance
            elif self.way == "in place":
                self.mean.mul_(0.9).add_(mean.detach(), alpha=0.1)
                self.variance.lerp_(variance, 0.1)
        return (h - mean) / (variance + 1e-5).sqrt()


class OfTorch(nn.Module):
    """The same as torch has it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH, **options)

    def forward(self, h: Tensor) -> Tensor:
        made: Tensor = self.norm(h.transpose(1, 2)).transpose(1, 2)
        return made


def step_with(norm: nn.Module, *, mixes_rows: bool = False) -> Window:
    def plant(model: SmallModel) -> None:
        model.between = norm
        model.mixes_rows = mixes_rows

    return recorded_step(change=plant)


def leaks_of(window: Window) -> Leaks:
    return leaks(window, find_roles(window))


KEPT = (ByHand("other tensors"), ByHand("in place"), OfTorch(), OfTorch(affine=False))


@pytest.mark.parametrize("norm", KEPT, ids=["other tensors", "in place", "torch", "plain torch"])
def test_batch_normalisation_that_keeps_its_statistics_is_no_leak(norm: nn.Module) -> None:
    found = leaks_of(step_with(norm))
    assert (found.future, found.batch, found.untested) == (0, 0, None)
    assert found.own is not None and found.own > 0.1


@pytest.mark.parametrize("norm", KEPT, ids=["other tensors", "in place", "torch", "plain torch"])
def test_a_leak_beside_it_is_still_one(norm: nn.Module) -> None:
    found = leaks_of(step_with(norm, mixes_rows=True))
    assert found.batch is not None and found.batch > 1e-3
    assert found.future == 0


@pytest.mark.parametrize(
    "norm", [ByHand("nothing kept"), OfTorch(track_running_stats=False)], ids=["by hand", "torch"]
)
def test_statistics_that_nobody_keeps_leave_a_text_alone_without_any(norm: nn.Module) -> None:
    window = step_with(norm)
    roles = find_roles(window)
    assert roles is not None and roles.scores is not None
    assert running_statistics(window.tape, [roles.scores], roles.run.at) is None
    found = leaks_of(window)
    assert found.batch is not None and found.batch > 1e-3


def test_windows_with_one_prediction_each_are_normalised_together_too() -> None:
    torch.manual_seed(0)
    table, norm, head = nn.Embedding(9, 6), nn.BatchNorm1d(18), nn.Linear(18, 9)
    windows, targets = torch.randint(9, (16, 3)), torch.randint(9, (16,))

    def of_windows(net: nn.Module, options: Options) -> Tensor:
        return nn.functional.cross_entropy(head(norm(table(windows).flatten(1))), targets)

    found = leaks_of(step_of(of_windows))
    assert (found.batch, found.untested) == (0, None)
    # All three tokens are looked at.
    assert (found.reach, found.length) == (2, 3)


def test_what_a_frozen_model_says_beside_it_was_not_there_before() -> None:
    torch.manual_seed(0)
    table, head = nn.Embedding(9, 6), nn.Linear(6, 9)
    teacher = nn.Sequential(nn.Embedding(9, 6), nn.LayerNorm(6), nn.Linear(6, 9))
    teacher.requires_grad_(False)
    windows, targets = torch.randint(9, (4, 5)), torch.randint(9, (4, 5))

    def taught(net: nn.Module, options: Options) -> Tensor:
        scores, said = head(table(windows)), teacher(windows)
        lesson = nn.functional.kl_div(
            scores.log_softmax(-1).flatten(0, 1),
            said.softmax(-1).flatten(0, 1),
            reduction="batchmean",
        )
        return lesson + nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    window = step_of(taught)
    roles = find_roles(window)
    assert roles is not None and roles.scores is not None
    assert running_statistics(window.tape, [roles.scores], roles.run.at) is None
    found = leaks_of(window)
    assert found.own is not None and found.own > 0.1


def test_averages_of_weights_that_are_kept_are_no_statistics_of_a_batch() -> None:
    """Weights go back to their average after each update, under another number than before."""
    model = SmallModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    averages = [0.5 * p.detach() for p in model.parameters()]

    def go_back() -> None:
        with torch.no_grad():
            for average, parameter in zip(averages, model.parameters(), strict=True):
                parameter.copy_(average.lerp_(parameter, 0.01))

    recorder = Recorder(0)
    recorder.start()
    try:
        go_back()
        loss = shifted_loss(model, batch())
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
        go_back()
    finally:
        recorder.stop()
    found = leaks_of(recorder.window)
    assert (found.future, found.batch) == (0.0, 0.0)
