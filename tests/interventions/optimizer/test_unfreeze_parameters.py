"""Gradients asked for of all that is to be trained."""

from __future__ import annotations

from changed_runs import Net, Ran, sgd, trained, with_changes

from lossleuth.interventions.optimizer.unfreeze_parameters import UnfreezeParameters


def freeze(net: Net) -> None:
    net.head.requires_grad_(False)


def test_where_nothing_is_frozen_nothing_changes() -> None:
    assert with_changes(trained, UnfreezeParameters()).is_exactly(trained())


def test_what_was_frozen_is_trained_from_the_second_step_on() -> None:
    def frozen() -> Ran:
        return trained(make=sgd, plant=freeze)

    heads = slice(11 * 8, None)
    start = trained(steps=0)
    assert frozen().weights[heads].equal(start.weights[heads])
    found = with_changes(frozen, UnfreezeParameters())
    assert found.losses[:2] == frozen().losses[:2]
    assert (found.weights[heads] - start.weights[heads]).abs().max() > 1e-2


def test_what_no_optimizer_has_stays_frozen() -> None:
    def probe() -> Ran:
        return trained(
            make=sgd,
            plant=lambda net: net.table.requires_grad_(False),
            held=lambda net: net.head.parameters(),
        )

    assert with_changes(probe, UnfreezeParameters()).is_exactly(probe())
