"""What references made of the very batches of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Yardstick:
    """Losses in nats per supervised token, each before the batch was learnt from."""

    # Why there is none, if so.
    why_not: str | None = None
    # Steps of the run that the reference has come to, and its loss at each.
    steps: Sequence[int] = ()
    losses: Sequence[float] = ()
    # Of the n-gram mixture, at all steps that were kept.
    mixture_steps: Sequence[int] = ()
    mixture: Sequence[float] = ()
    # Targets that counted in each of the steps of the reference.
    supervised: Sequence[int] = ()
    # Of the reference: its parameters and those of the run, its rate, and the vocabulary.
    parameters: int = 0
    trained: int = 0
    rate: float = 0.0
    vocabulary: int = 0
    # Steps that it was to make: those of the run.
    planned: int = 0
