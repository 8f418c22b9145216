"""Founding case 4: the loss is exactly ln V and every gradient exactly 0."""

from __future__ import annotations

import math

import pytest
import torch
from faults import asked, mean

from lossleuth.labs.cases import constant_loss
from lossleuth.labs.cases.constant_loss import Network, Settings


def batch(network: Network) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, network.settings.vocabulary, (2, 6))
    return tokens[:, :-1], tokens[:, 1:]


def drawn() -> Network:
    torch.manual_seed(0)
    network = Network(Settings(vocabulary=50, width=8, weight_scale=0.3))
    network.initialise()
    return network.double()


@pytest.mark.parametrize("repair", [(), ("loss",)])
def test_the_loss_is_ln_10000_at_every_epoch(
    repair: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    network, losses = constant_loss.train(asked(32, *repair))
    assert len(set(losses)) == 1
    assert losses[0] == pytest.approx(math.log(10_000), abs=5e-6)
    assert capsys.readouterr().out.count("loss 9.2103") == 2
    for parameter in network.parameters():
        assert not parameter.any()
        assert parameter.grad is None or not parameter.grad.any()


def test_repairing_the_start_alone_moves_weights_and_hardly_the_loss() -> None:
    network, losses = constant_loss.train(asked(32, "init"))
    assert network.head.grad is None
    assert network.down.grad is not None and network.down.grad.any()
    assert abs(mean(losses[-16:]) - mean(losses[:16])) < 0.1


def test_with_both_repairs_it_learns() -> None:
    _, losses = constant_loss.train(asked(64, *constant_loss.REPAIRS))
    assert mean(losses[-16:]) < mean(losses[:16]) - 2


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_error"])
def test_the_gradients_made_by_hand_are_right(loss: str) -> None:
    network = drawn()
    tokens, targets = batch(network)
    with torch.no_grad():
        _, last = network(tokens)
        made = getattr(constant_loss, f"{loss}_gradient")(network, last, targets)
        network.assign_gradients(tokens, made)
    used = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
    wanted_embedding = network.embedding.detach()[targets]
    for parameter in network.parameters():
        parameter.requires_grad_()
    scores, last = network(tokens)
    if loss == "cross_entropy":
        value = constant_loss.cross_entropy(scores, targets)
    else:
        value = (last - wanted_embedding).square().sum() / targets.numel()
    names = list(used)
    parameters = dict(network.named_parameters())
    true = torch.autograd.grad(value, [parameters[name] for name in names])
    torch.testing.assert_close(list(used.values()), list(true))
    assert ("head" in used) is (loss == "cross_entropy")
