"""Findings about evaluations."""

from __future__ import annotations

from dataclasses import dataclass, field

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class MetricValue:
    """One number taken out of an evaluation, in nats per token where it is a cross-entropy."""

    value: float
    # The batches that it is of, and how many texts and counted tokens these have.
    batches: tuple[int, ...]
    texts: int
    count: int
    # A weighted mean of cross-entropies ("mean"), that of a sum, its exponential, or none of these.
    kind: str
    # Whether it was exponentiated last.
    is_exponential: bool = False
    # The number as a mean over what it counts, and that mean with one thing corrected.
    mean: float | None = None
    evenly: float | None = None
    # The mean of the means of its batches, and the same with batches weighing as many texts.
    by_batch: float | None = None
    by_text: float | None = None
    unpadded: float | None = None
    undropped: float | None = None
    aligned: float | None = None
    # With everything corrected.
    true: float | None = None
    # Padded positions that count; the offset of the targets, with the share that it explains and
    # the share that the next token explains.
    pads: int = 0
    offset: int | None = None
    explained: float = 0.0
    next_explained: float = 0.0
    # Rounding floor of the value.
    floor: float = 0.0


@dataclass(frozen=True)
class Metric:
    """A line that takes the same number out of batch after batch."""

    place: str | None
    # Whether the user's own code reads it.
    read: bool
    numbers: list[MetricValue] = field(default_factory=list)


@dataclass(frozen=True)
class Accuracy:
    """The share of right guesses, and what it would be against the next token."""

    value: float
    aligned: float | None
    count: int
    # The offset that explains most labels, its share, and that of the next token.
    offset: int | None
    explained: float
    next_explained: float
    place: str | None


@dataclass(frozen=True)
class Evaluation(Finding):
    """All evaluations of one recorded stretch."""

    batches: int
    # True loss over all batches, every token weighing the same, and how many tokens that is.
    true: float | None
    count: int
    metrics: list[Metric]
    accuracies: list[Accuracy] = field(default_factory=list)
    # Whether some batches were left out, and why.
    whole: bool = True
