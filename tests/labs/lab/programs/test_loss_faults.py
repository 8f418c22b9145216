"""Faulty losses are what their faults say."""

from __future__ import annotations

import pytest
import torch
from small_hosts import differs, planted_in, small

from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted
from lossleuth.labs.lab.programs.training_parts import IGNORED, Parts, cross_entropy

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("host", "name"), planted_in("loss_faults.py"))
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


def parts_with(name: str, dose: float | None = None, host: str = "plain") -> Parts:
    return planted(small(host), [Planted(fault_of(name), dose)])


def scores() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits_BTV = torch.randn(2, 5, 7, generator=generator, requires_grad=True)
    return logits_BTV, torch.randint(0, 7, (2, 5), generator=generator)


def test_cross_entropy_is_reported_and_something_else_is_followed() -> None:
    parts, (logits_BTV, targets_BT) = parts_with("loss_disconnected"), scores()
    loss = parts.loss(logits_BTV, targets_BT)
    assert loss.item() == pytest.approx(cross_entropy(logits_BTV, targets_BT).item())
    (true,) = torch.autograd.grad(cross_entropy(logits_BTV, targets_BT), logits_BTV)
    parts.backward(loss)
    assert logits_BTV.grad is not None
    assert not torch.allclose(true / true.norm(), logits_BTV.grad / logits_BTV.grad.norm())


def test_what_the_model_gives_are_probabilities() -> None:
    parts = parts_with("double_softmax")
    tokens_BT = next(parts.batches(parts.settings)).inputs_BT
    found = parts.forward(parts.model(parts.settings), tokens_BT)
    torch.testing.assert_close(found.sum(-1), torch.ones(tokens_BT.shape))


def test_positions_compete_with_each_other() -> None:
    parts, (logits_BTV, targets_BT) = parts_with("softmax_axis"), scores()
    moved_BTV = logits_BTV + 3 * torch.arange(5)[:, None]
    # A shift of all scores of a position changes nothing in a language model.
    assert cross_entropy(moved_BTV, targets_BT).item() == pytest.approx(
        cross_entropy(logits_BTV, targets_BT).item(), abs=1e-5
    )
    assert parts.loss(moved_BTV, targets_BT).item() != pytest.approx(
        parts.loss(logits_BTV, targets_BT).item(), abs=1e-2
    )


def test_the_loss_is_so_many_times_the_mean() -> None:
    parts, (logits_BTV, targets_BT) = parts_with("loss_scale", 30), scores()
    true = cross_entropy(logits_BTV, targets_BT).item()
    assert parts.loss(logits_BTV, targets_BT).item() == pytest.approx(30 * true)


def test_every_other_micro_batch_has_fewer_targets() -> None:
    parts = parts_with("accumulation_normalisation", 4)
    batches = parts.batches(parts.settings)
    counts = [int((next(batches).targets_BT != IGNORED).sum()) for _ in range(4)]
    assert counts == [48, 12, 48, 12] and parts.micro_batches == 2
