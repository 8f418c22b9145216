"""Targets against the tokens around them."""

from __future__ import annotations

import pytest
import torch
from steps import recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.data import TargetRelation
from lossleuth.probes.data.target_relation import BINS, stands_out, target_relation
from lossleuth.tape.roles.roles import find_roles


def text(count: int, seed: int = 0) -> Tensor:
    """Tokens of which each tells a little of the next."""
    generator = torch.Generator().manual_seed(seed)
    moves = torch.randint(1, 5, (count,), generator=generator)
    return moves.cumsum(0) % 50


def test_a_token_and_the_next_stand_out() -> None:
    tokens = text(2000)
    assert stands_out(tokens[:-1], tokens[1:]) > 10


@pytest.mark.parametrize("seed", range(12))
def test_what_is_not_related_does_not(seed: int) -> None:
    targets = torch.randint(0, 50, (2000,), generator=torch.Generator().manual_seed(seed))
    assert abs(stands_out(text(2000), targets)) < 4


def test_frequent_tokens_alone_make_no_relation() -> None:
    generator = torch.Generator().manual_seed(5)
    first = (torch.rand(3000, generator=generator) ** 4 * 40).long()
    second = (torch.rand(3000, generator=generator) ** 4 * 40).long()
    assert abs(stands_out(first, second)) < 4


def test_too_few_pairs_or_one_token_say_nothing() -> None:
    few = torch.arange(BINS - 1)
    assert stands_out(few, few) == 0
    same = torch.zeros(500, dtype=torch.long)
    assert stands_out(same, same) == 0


def test_the_programs_random_numbers_are_not_touched() -> None:
    before = torch.get_rng_state()
    stands_out(text(200), text(200, 1))
    assert torch.equal(torch.get_rng_state(), before)


def related(targets: Tensor, inputs: Tensor) -> TargetRelation:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    window = recorded_step(loss)
    return target_relation(window, find_roles(window))


def rows() -> Tensor:
    """Rows of a text whose tokens fit the model of the tests."""
    return (text(200 * 9) % 23).reshape(200, 9)


def test_targets_of_other_rows_are_unrelated_where_the_text_is_not() -> None:
    tokens = rows()
    found = related(tokens[:, 1:].roll(17, 0), tokens[:, :-1])
    assert found.untested is None
    assert max(found.targets.values()) < 4
    assert found.inputs > max(found.targets.values()) + 4


def test_masked_tokens_depend_on_their_neighbours() -> None:
    tokens = rows()[:, :8]
    chosen = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    inputs = torch.where(chosen, 22, tokens)
    found = related(torch.where(chosen, tokens, -100), inputs)
    assert max(found.targets.values()) > 4


def test_where_rows_of_the_loss_are_not_known_it_is_untested() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return model(tokens).square().mean()

    window = recorded_step(loss)
    assert target_relation(window, find_roles(window)).untested is not None
