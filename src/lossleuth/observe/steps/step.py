"""What is collected between one update and the next: a step.

A step ends at an update. It is closed only when the next one begins, so that several optimizers
that step in turn, and what the script reads after its update, belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from lossleuth.observe.steps.clipping import Clip

MAX_READS = 32
_count = attrgetter("count")


@dataclass
class StepWindow:
    """A step in progress."""

    began: float
    # Whether values that seldom change are read in it.
    is_sampled: bool = True
    losses: list[Any] = field(default_factory=list)
    reads: list[tuple[Any, str]] = field(default_factory=list)
    clips: list[Clip] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    betas: tuple[float, float] | None = None
    updated_by: list[str] = field(default_factory=list)
    optimizers: set[int] = field(default_factory=set)
    # Numbers of what was trained.
    trained: list[int | None] = field(default_factory=list)
    skipped_by: list[str] = field(default_factory=list)
    backwards: int = 0
    places: dict[str, str] = field(default_factory=dict)
    loss_scale: float | None = None
    lookups: list[Any] = field(default_factory=list)
    micro_batches: list[Any] = field(default_factory=list)
    supervised: int | None = None
    # Losses over no target at all, and those of them that are no mean.
    unsupervised: int = 0
    empty_sums: int = 0
    classes: int | None = None
    unigram: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _targets_before: int = 0

    @property
    def updated(self) -> bool:
        """Whether an update was made or skipped: then the next thing begins a new step."""
        return bool(self.updated_by or self.skipped_by)

    @property
    def empty(self) -> bool:
        """Whether nothing that makes a step has happened."""
        return not self.backwards and not self.updated

    def end_micro_batch(self) -> None:
        """Of the integers looked up since the last backward, the longest list is the tokens.

        Its fingerprint is that of all that are as many as the targets: distances between positions
        are the same in every step, and may well be more numbers than the tokens; a level of noise
        for each text is another in every step, and no token.
        """
        lookups, targets = self.lookups, (self.supervised or 0) - self._targets_before
        if lookups:
            longest = lookups[0]
            if len(lookups) > 1:
                longest = max(lookups, key=_count)
                tokens = {seen.hash for seen in lookups if seen.count >= targets}
                longest = longest._replace(hash=sum(tokens or {longest.hash}))
            self.micro_batches.append(longest)
            self.lookups = []
        self._targets_before = self.supervised or 0

    def read(self, value: Any, place: str) -> None:
        """The user's code has read a number; printing one takes several looks at it."""
        if len(self.reads) < MAX_READS and (value, place) not in self.reads[-1:]:
            self.reads.append((value, place))


def integer_tensors(batch: Any) -> list[Any]:
    """The tensors of whole numbers, one dimension or more, in what a data loader gives.

    >>> import torch
    >>> found = integer_tensors({"ids": torch.arange(3), "weights": torch.ones(2), "n": 3})
    >>> [tuple(tensor.shape) for tensor in found]
    [(3,)]
    """
    if hasattr(batch, "is_floating_point"):
        whole = not batch.is_floating_point() and not batch.is_complex() and batch.dim()
        return [batch] if whole else []
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, list | tuple):
        return [tensor for part in batch for tensor in integer_tensors(part)]
    return []
