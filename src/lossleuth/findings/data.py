"""Findings about tokens and targets."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class Alignment(Finding):
    """Share of supervised targets that are the token at each offset, and how many there are."""

    # The offset that explains most targets, if it explains more than half.
    offset: int | None
    shares: dict[int, float]
    supervised: int
    targets: int
    # The time axis of the tokens.
    time_axis: int = 1
    # The tokens that are read, how many of them are distinct, and how many targets are.
    tokens: int = 0
    distinct_tokens: int = 0
    distinct_targets: int = 0
    # Where a step has several losses, the offset of each; None where no offset explains it.
    heads: tuple[int | None, ...] = ()
    # The one token that all targets are, where they are tokens of the table that is looked up in.
    only_target: int | None = None


@dataclass(frozen=True)
class Padding(Finding):
    """The padding token, the share of positions that are padding, and how many are supervised."""

    token: int | None
    share: float
    supervised_pads: int
    supervised: int


@dataclass(frozen=True)
class TargetLines(Finding):
    """Places as file:line, the last first; `loss` is where targets are compared with logits."""

    loss: str | None
    # Lines that chose which elements are targets, and which logits they are compared with.
    targets: tuple[str, ...]
    logits: tuple[str, ...]
    # Lines that only pass the targets on.
    passed: tuple[str, ...] = ()
    # Lines that fill targets with one number, such as the ignored one.
    filled: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetRelation(Finding):
    """Standard deviations by which tables of pairs stand out from those of shuffled targets."""

    # For tokens at each offset; targets that are the very token at the best one are left out.
    targets: dict[int, float]
    inputs: float


@dataclass(frozen=True)
class DataSize(Finding):
    """Elements of the largest tensor of whole numbers behind the tokens of a batch."""

    tokens: int
