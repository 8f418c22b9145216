"""What is observed of a run, step by step and as a whole: the record's numbers with names.

Fields are those of the record. What a run did not have is None, or empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

Numbers = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Step:
    """One training step, from one update to the next."""

    step: int = 0
    seconds: float | None = None
    # Mean of the losses that were differentiated, and each of them if there are several.
    loss: float | None = None
    losses: Sequence[float] | None = None
    loss_scale: float | None = None
    # Numbers that the user's own code read, with their places.
    reads: Sequence[tuple[float | None, str]] | None = None
    # Rate of the first group, and of all where there are several.
    lr: float | None = None
    rates: Sequence[float] | None = None
    backwards: int = 0
    updates: int = 0
    # The number of what was updated, or several; of phases a step belongs to one by this.
    trained: int | Sequence[int] | None = None
    # Who skipped an update that was asked for.
    skipped_by: Sequence[str] | None = None
    grad_norm: float | None = None
    clip_factor: float | None = None
    clip_limit: float | None = None
    # Targets that counted, losses over none at all, and those of them that are no mean.
    supervised: int | None = None
    unsupervised: int | None = None
    empty_sums: int | None = None
    classes: int | None = None
    # Entropy of the targets seen so far.
    unigram: float | None = None
    # Fingerprint and number of its tokens.
    batch: str | None = None
    tokens: int | None = None
    # The user's line of each part of a step, where it is another than before.
    places: Mapping[str, str] | None = None

    @classmethod
    def of(cls, scalars: Mapping[str, Any]) -> Step:
        """A step from the scalars of the record."""
        return cls(**{name: scalars[name] for name in _STEP_FIELDS if name in scalars})


_STEP_FIELDS = tuple(f.name for f in fields(Step))


@dataclass(frozen=True)
class Readings:
    """Readings of every parameter, a row for each step; empty where there are none."""

    grad_rms: Numbers = ()
    grad_zero_share: Numbers = ()
    grad_nonfinite: Numbers = ()
    weight_rms: Numbers = ()
    weight_nonfinite: Numbers = ()
    update_rms: Numbers = ()
    update_ratio: Numbers = ()
    swallowed_share: Numbers = ()
    epsilon_share: Numbers = ()
    age: Numbers = ()


READINGS = tuple(f.name for f in fields(Readings))


@dataclass(frozen=True)
class ParameterGroup:
    """The settings of one group of an optimizer that judges ask for."""

    betas: Sequence[float] | None = None
    eps: float | None = None
    weight_decay: float | None = None
    initial_lr: float | None = None


@dataclass(frozen=True)
class Made:
    """An optimizer or a scheduler: its groups, and the user's line that made it."""

    place: str | None = None
    groups: Sequence[ParameterGroup] = ()
    # The number of what it trains, as in the steps.
    trained: int | None = None


@dataclass(frozen=True)
class RunSettings:
    """Optimizers and schedulers as they are at run time."""

    optimizers: Sequence[Made] = ()
    schedulers: Sequence[Made] = ()

    @property
    def groups(self) -> list[ParameterGroup]:
        """The groups of all optimizers."""
        return [group for optimizer in self.optimizers for group in optimizer.groups]


@dataclass(frozen=True)
class FoundIn:
    """A file in which values of the run are stored: the share of them, or the line."""

    file: str
    share: float | None = None
    line: int | None = None


@dataclass(frozen=True)
class WeightOrigins:
    """Files in which the first weights are stored, the largest share first."""

    files: Sequence[FoundIn] = ()


@dataclass(frozen=True)
class Origins:
    """Where weights, tokens, targets and settings came from, as far as files say."""

    weights: WeightOrigins | None = None
    tokens: FoundIn | None = None
    targets: FoundIn | None = None
    # By setting: the file in which its value is written.
    settings: Mapping[str, FoundIn | None] = field(default_factory=dict)
    # The only line that freezes parameters, if there is exactly one.
    freezing: str | None = None


@dataclass(frozen=True)
class Provenance:
    """Libraries that came with no package."""

    libraries: Sequence[str] = ()


@dataclass(frozen=True)
class Floors:
    """What the seen tokens allow, in nats per token: by frequency, by the token before."""

    unigram: float | None = None
    bigram: float | None = None


@dataclass(frozen=True)
class Declared:
    """Settings or floors as they were known after so many steps."""

    steps_before: int
    settings: RunSettings | None = None
    floors: Floors | None = None


@dataclass(frozen=True)
class Trainee:
    """Something that is trained, and the kind of optimizer that does it: one line, one setting."""

    number: int
    kind: int


@dataclass(frozen=True)
class Unfinished:
    """A step whose update never came."""

    backwards: int = 0
    places: Mapping[str, str] = field(default_factory=dict)
    # The first call of a method `step` after the backward pass.
    step_call: str | None = None
    # Optimizers that were made and never stepped.
    idle_optimizers: Sequence[Made] = ()
    # How many parameters have changed in any bit, of how many; None where that is not known.
    moved: tuple[int, int] | None = None
    losses: Sequence[float | None] = ()
    supervised: int | None = None
    unsupervised: int | None = None
    empty_sums: int | None = None


# How a record ends where the script came to its own end.
OWN_END = ("end of script", "sys.exit", "exit", "end of batches")


@dataclass(frozen=True)
class Ending:
    """How the script ended."""

    how: str | None = None
    code: int | str | None = None
    error: str | None = None
    # Steps before which there was an evaluation.
    evaluated: Sequence[int] = ()
    # Schedulers by class, and how often each was stepped.
    scheduled: Sequence[tuple[str, int]] = ()
    # Of schedules with an end: how often each was stepped, and how often it may be.
    planned: Sequence[tuple[int, int]] = ()
    # Optimizers and schedules that were made before the first backward pass.
    made_before_training: int | None = None
    unfinished: Unfinished | None = None

    @property
    def is_own(self) -> bool:
        """Whether the script came to its own end."""
        return self.how in OWN_END


@dataclass(frozen=True)
class PrintedNumber:
    """A number that the script printed, and half a unit of its last digit."""

    value: float
    half: float
    digits: int
    line: int
