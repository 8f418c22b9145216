"""Other seeds for the same script."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from lossleuth.observe.seeds import shift_seeds


@contextmanager
def shifted(shift: int) -> Iterator[None]:
    """In a process as fresh as this one can be made, and left as it was."""
    undo: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, replacement: Any) -> None:
        undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, replacement)

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    # Torch begins with a seed of chance.
    torch.seed()
    try:
        shift_seeds(shift, replace)
        yield
    finally:
        for owner, name, original in reversed(undo):
            setattr(owner, name, original)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), torch.rand(()).item()


def drawn_by_chance() -> tuple[float, ...]:
    random.seed()
    np.random.seed()
    torch.seed()
    return (*draws(), float(np.random.default_rng().random()))


def seeded() -> tuple[float, float, float]:
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    return draws()


def test_without_a_shift_seeds_are_the_scripts_own() -> None:
    own = seeded()
    with shifted(0):
        assert seeded() == own


def test_a_shift_is_added_to_every_seed() -> None:
    with shifted(1000):
        found = seeded()
    random.seed(1007)
    np.random.seed(1007)
    torch.manual_seed(1007)
    assert found == draws()


@pytest.mark.parametrize("draw", [draws, drawn_by_chance])
def test_what_is_left_to_chance_is_the_same_each_time(draw: Callable[[], Any]) -> None:
    found = []
    for shift in (0, 0, 1000, 1000):
        with shifted(shift):
            found.append(draw())
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert all(a != b for a, b in zip(found[0], found[2], strict=True))


def test_a_generator_that_the_script_made_for_its_data_is_left_alone() -> None:
    own = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    numbers = np.random.default_rng(3).random()
    python = random.Random(3).random()
    with shifted(1000):
        assert torch.randperm(9, generator=torch.Generator().manual_seed(3)).equal(own)
        assert np.random.default_rng(3).random() == numbers
        assert random.Random(3).random() == python


@pytest.mark.parametrize("seed", [-5, 0, 2**32 - 1, 2**63, 2**64 - 1])
def test_every_seed_that_torch_takes_can_be_shifted(seed: int) -> None:
    with shifted(1000):
        torch.manual_seed(seed)
        shifted_draw = torch.rand(())
    torch.manual_seed(seed)
    assert not torch.rand(()).equal(shifted_draw)


def test_the_largest_seed_of_numpy_and_words_for_seeds_still_work() -> None:
    with shifted(1000):
        np.random.seed(2**32 - 1)
        random.seed("a word")
        found = random.random()
    random.seed("a word")
    assert random.random() == found
