"""A step with other tokens."""

from __future__ import annotations

import pytest
import torch
from loss_layouts import LENGTH, ROWS, Options, channel_first, loop_of_losses, step_of, time_first

from lossleuth.probes.model.changed_tokens import (
    ChangedTokens,
    changed_tokens,
    half_changed,
    others_than,
)
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


def test_they_are_others_everywhere_and_occur_in_the_batch() -> None:
    tokens = torch.tensor([[3, 5, 3, 9], [5, 5, 9, 3]])
    changed = others_than(tokens, tokens[:, 1])
    assert bool((changed != tokens[:, 1]).all())
    assert set(changed.tolist()) <= {3, 5, 9}


def test_a_batch_of_one_token_has_no_other() -> None:
    with pytest.raises(CannotReplay):
        others_than(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, dtype=torch.long))


def test_every_text_is_changed_in_one_half_or_the_other() -> None:
    tokens = torch.arange(15).reshape(5, 3)
    first, chosen = half_changed(tokens, 0)
    second, others = half_changed(tokens, 1)
    assert bool((chosen != others).all())
    assert bool((first != tokens).all(1).eq(chosen).all())
    assert bool((second != tokens).all(1).eq(others).all())


def step(window: Window) -> ChangedTokens:
    roles = find_roles(window)
    assert roles is not None
    return changed_tokens(window, roles)


@pytest.mark.parametrize("layout", [channel_first, time_first, loop_of_losses])
def test_each_row_knows_its_text_and_its_position(layout: object) -> None:
    found = step(step_of(layout))  # type: ignore[arg-type]  # a layout
    assert found.tokens.shape == (ROWS, LENGTH)
    tokens = found.tokens.clone()
    before = found.rows(tokens)
    tokens[1, 5] = int(tokens[1, 2])
    moved = (found.rows(tokens) != before).any(-1)
    assert set(found.texts[moved].tolist()) == {1}
    assert set(found.times[moved].tolist()) == {5, 6, 7}


def test_texts_are_told_from_time_by_effect() -> None:
    # Targets that are the very input: content is the same along both axes.
    found = step(step_of(time_first, Options(offset=0)))
    assert found.time_axis == 0


def test_losses_are_those_of_each_row() -> None:
    found = step(step_of(channel_first))
    every = torch.ones(ROWS * LENGTH, dtype=torch.bool)
    losses = found.losses(found.rows(found.tokens), every)
    assert losses is not None and float(losses.mean()) == pytest.approx(3.646, abs=1e-3)
