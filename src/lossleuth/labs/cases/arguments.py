"""The command line that the founding programs share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arguments:
    """How long to train, from which seed, and with which repairs."""

    steps: int
    seed: int
    repaired: frozenset[str]


def read_arguments(
    program: str,
    repairs: Sequence[str],
    *,
    steps: int,
    words: Sequence[str] | None = None,
) -> Arguments:
    """The arguments of a program, from the command line or from `words`.

    >>> read_arguments("", ["mask"], steps=5, words=["--repaired"]).repaired
    frozenset({'mask'})
    """
    parser = argparse.ArgumentParser(description=program.split("\n")[0])
    parser.add_argument("--steps", type=int, default=steps, help="batches to train on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repaired", action="store_true", help="with every fault repaired")
    parser.add_argument(
        "--repair", action="append", default=[], choices=repairs, help="repair one fault"
    )
    given = parser.parse_args(words)
    repaired = frozenset(repairs if given.repaired else given.repair)
    return Arguments(given.steps, given.seed, repaired)
