"""Distances between tokens and targets in the data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from loss_layouts import CLASSES, Net, Options, step_of
from torch import Tensor
from torch.nn import functional as F

from lossleuth.tape.roles.alignment import alignment
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window

WINDOW = 6


CORPUS = torch.randint(1, CLASSES, (400,), generator=torch.Generator().manual_seed(2))
OTHER = CORPUS.flip(0).clone()
MONOTONOUS = torch.where(torch.arange(400) % 5 == 0, 3, 7)
STARTS = (3, 57, 101, 260, 311, 350, 17, 44, 90)


def one_after_a_window(offset: int, taken: Callable[[Tensor], Tensor] = lambda t: t) -> Window:
    """A model that sees a window and predicts one token, `offset` after its last."""

    def loss(net: Net, o: Options) -> Tensor:
        x = torch.stack([CORPUS[i : i + WINDOW] for i in STARTS])
        y = torch.stack([CORPUS[i + WINDOW - 1 + offset] for i in STARTS])
        return F.cross_entropy(net.head(net.features(x)[:, -1]), taken(y))

    return step_of(loss)


@pytest.mark.parametrize("offset", [1, 2, 0, 5, -3])
def test_a_target_outside_the_window_is_known_by_where_it_was_taken(offset: int) -> None:
    window = one_after_a_window(offset)
    found = alignment(window, find_roles(window))
    assert found.untested is None and found.offset == offset
    assert found.shares[offset] == 1.0


def test_positions_say_what_content_cannot() -> None:
    # A text of two tokens: every offset looks nearly right.
    def loss(net: Net, o: Options) -> Tensor:
        data = MONOTONOUS
        x = torch.stack([data[i : i + WINDOW] for i in STARTS])
        y = torch.stack([data[i + 2 : i + 2 + WINDOW] for i in STARTS])
        return F.cross_entropy(net.head(net.features(x)).flatten(0, 1), y.flatten())

    window = step_of(loss)
    assert alignment(window, find_roles(window)).offset == 2


def test_numbers_that_were_computed_with_are_no_positions() -> None:
    # One more than the token: sent through this, a position would be one more as well.
    window = one_after_a_window(1, lambda y: (y + 1) % CLASSES)
    found = alignment(window, find_roles(window))
    assert found.offset is None or found.shares[found.offset] < 0.9


def test_targets_of_other_data_have_no_distance() -> None:
    def loss(net: Net, o: Options) -> Tensor:
        x = torch.stack([CORPUS[i : i + WINDOW] for i in STARTS])
        y = torch.stack([OTHER[i + WINDOW] for i in STARTS])
        return F.cross_entropy(net.head(net.features(x)[:, -1]), y)

    window = step_of(loss)
    found = alignment(window, find_roles(window))
    assert set(found.shares) <= set(range(-2, 4))
    assert found.shares.get(1, 0.0) < 0.9


def test_rows_of_a_table_of_pairs_are_no_stream() -> None:
    pairs = torch.stack([CORPUS[:160].reshape(40, 4), OTHER[:160].reshape(40, 4)], 1)

    def loss(net: Net, o: Options) -> Tensor:
        x, y = pairs[:9, 0], pairs[:9, 1]
        return F.cross_entropy(net.head(net.features(x)).flatten(0, 1), y.flatten())

    window = step_of(loss)
    assert alignment(window, find_roles(window)).offset is None
