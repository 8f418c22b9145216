"""Findings about updates."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class UpdateTruth(Finding):
    """One optimizer's step: the share of the update that its rule does not explain."""

    optimizer: str
    # The rule that was compared with, or that fits best.
    rule: str
    error: float
    floor: float
    update_norm: float
    # Whether the rule explains the update; if not, it is only the one that fits best.
    explained: bool = True


@dataclass(frozen=True)
class Undone(Finding):
    """The share of a step's update that is taken back before the next step begins, and where."""

    share: float
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class GradientEdits(Finding):
    """The factor that most gradients were multiplied by, and those that went another way."""

    factor: float
    # Name, and its own factor if it was only scaled, else None.
    others: tuple[tuple[str, float | None], ...]
    # Parameters with a gradient after the backward pass, and those of them that had none, or
    # zero, at the update.
    left: int = 0
    wiped: int = 0


@dataclass(frozen=True)
class Descent(Finding):
    """Cosine between the update and the negative gradient; below 0 it goes up."""

    cosine: float


@dataclass(frozen=True)
class Uncovered:
    """A tensor: its name or shape, elements, where it is used first, and its gradient's norm."""

    name: str
    elements: int
    file: str | None
    line: int | None
    module: str | None
    gradient: float
    # Tells tensors of one name apart, within a run.
    key: int = 0


@dataclass(frozen=True)
class Coverage(Finding):
    """Parameters with a gradient but no update, updated but unused, or frozen."""

    # Leaves with a gradient that no optimizer of this step holds.
    missing: tuple[Uncovered, ...]
    # Share of the squared gradient norm that falls on those.
    missing_share: float
    # In an optimizer, used in the step, but not requiring a gradient.
    frozen: tuple[Uncovered, ...]
    # In an optimizer, requiring a gradient, but not used in the step.
    unused: int
    held: int
    # Whether the unused have the shapes of the missing: other copies of the same weights.
    unused_match_missing: bool
    # Share of the elements of used parameters that do not require a gradient.
    frozen_share: float = 0.0
    # Share of the trained elements in matrices of less than half the rank of the frozen ones.
    thin_share: float = 0.0
    # Of the largest missing one: whether it is a module's parameter, else the line that hides it.
    missing_registered: bool = False
    missing_hidden_at: str | None = None
    # There is no optimizer: what is held is what moved, and on another step others may.
    by_hand: bool = False


@dataclass(frozen=True)
class UpdateLines(Finding):
    """Lines of the user's own code that write to parameters, as file:line."""

    places: tuple[str, ...]
