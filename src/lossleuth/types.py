"""Types that every layer shares. Imports nothing of ours, and no torch."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple


class BadInput(Exception):
    """What the user gave cannot be worked with: one plain sentence, exit code 2.

    The sentence says what was expected, what was found and what to do.

    >>> print(BadInput("a text file", "no file at 'corpus.txt'", "check the path after --data"))
    expected a text file, found no file at 'corpus.txt': check the path after --data
    """

    def __init__(self, expected: str, found: str, remedy: str) -> None:
        super().__init__(f"expected {expected}, found {found}: {remedy}")
        self.expected = expected
        self.found = found
        self.remedy = remedy


class Status(Enum):
    """What is known of a cause. Unknown is never green."""

    PROVEN = "proven"
    SUSPECTED = "suspected"
    BENIGN = "benign"
    REFUTED = "refuted"
    UNTESTED = "untested"
    ERRORED = "errored"


class Stage(Enum):
    """Where a fault sits; earlier stages outrank later ones."""

    DATA = "data"
    LOSS = "loss"
    MODEL = "model"
    INITIALISATION = "initialisation"
    GRADIENT = "gradient"
    OPTIMIZER = "optimizer"
    PRECISION = "precision"
    DISTILLATION = "distillation"
    EVALUATION = "evaluation"


class Where(NamedTuple):
    """The user's source where the fault is in it, else the asset at fault (then without line)."""

    file: str | None
    line: int | None = None
    module: str | None = None


class Wrongness(NamedTuple):
    """An invariant, what it should be, what it is, and what rounding alone could make of it."""

    what: str
    value: float
    expected: float
    floor: float


class Change(NamedTuple):
    """One thing that is different in a run: an intervention by name, with its options."""

    name: str
    options: tuple[tuple[str, float | int | str | bool], ...] = ()

    @classmethod
    def of(cls, name: str, **options: float | int | str | bool) -> Change:
        """A change with its options by name.

        >>> Change.of("scale_lr", factor=0.1).sentence
        'scale_lr(factor=0.1)'
        """
        return cls(name, tuple(sorted(options.items())))

    @classmethod
    def told(cls, sentence: str) -> Change:
        """The change that a sentence tells of.

        >>> Change.told("use_rule(rule=AdamW)") == Change.of("use_rule", rule="AdamW")
        True
        """
        name, _, inside = sentence.rstrip(")").partition("(")
        options: dict[str, float | int | str | bool] = {}
        for part in filter(None, inside.split(", ")):
            key, _, value = part.partition("=")
            try:
                options[key] = ast.literal_eval(value)
            except (ValueError, SyntaxError):
                options[key] = value
        return cls.of(name, **options)

    @property
    def sentence(self) -> str:
        """As it is told: `scale_lr(factor=0.1)`."""
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.options)})"


# A loss of so many times its start is lost: how far it went says nothing, and would only drown the
# difference to a run that learns in the differences among those that do not.
LOST = 10.0


def counted(end: float, start: float) -> float:
    """A loss as it counts in a comparison.

    >>> counted(2.5, 4.0), counted(31000.0, 4.0), counted(math.inf, 4.0)
    (2.5, 40.0, 40.0)
    """
    return min(end, LOST * start) if start > 0 else end


class Effect(NamedTuple):
    """What a change did to the true loss over paired runs; positive is better with the change."""

    change: Change
    # Loss without the change minus loss with it, in nats, and the standard error of that; of
    # losses as they are counted.
    nats: float
    error: float
    seeds: int
    steps: int
    # Mean true loss at the end without and with the change, and at the beginning.
    without: float
    with_change: float
    start: float
    # What was measured: the true loss, or the differentiated one where that is all there is.
    measure: str = "true loss"

    @property
    def is_better(self) -> bool:
        """Whether the change helped beyond doubt: by more than 3 standard errors, over 3 seeds."""
        return self.seeds >= 3 and self.nats > 3 * self.error and self.nats > 0

    @property
    def possible(self) -> float:
        """The progress that is made with the change, from the start on."""
        return self.start - self.with_change

    def makes_without(self, share: float) -> bool:
        """Whether more than this share of that progress is made without it."""
        gained = self.start - self.without
        return math.isfinite(gained) and gained > share * self.possible

    @property
    def sentence(self) -> str:
        """The effect in words."""
        lost = max(self.without, self.with_change) > LOST * self.start > 0
        cut = ""
        if lost and math.isfinite(self.nats):
            cut = f"; above {LOST * self.start:.3f} counts as that"
        return (
            f"{self.measure} {self.without:.3f} without, {self.with_change:.3f} with "
            f"{self.change.sentence} ({self.nats:+.3f} ± {self.error:.3f} nats over "
            f"{self.seeds} paired runs of {self.steps} steps{cut})"
        )


@dataclass(frozen=True)
class Evidence:
    """Everything that a judge may look at: plain numbers from a record, and trials."""

    # One mapping of scalars for each step, as the record has them.
    steps: Sequence[Mapping[str, Any]] = ()
    # Names and sizes of the parameters that were updated; readings by column, step by step.
    parameters: Sequence[str] = ()
    sizes: Sequence[int] = ()
    columns: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    # What the probes found on recorded steps, in order.
    windows: Sequence[Mapping[str, Any]] = ()
    # Evaluations that were recorded, each with the numbers printed until the next update was over.
    evaluations: Sequence[Mapping[str, Any]] = ()
    # Settings at run time, where weights and tokens came from, files and libraries, the ending.
    settings: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    # What the seen tokens allow, in nats per token: by frequency, by the token before.
    floors: Mapping[str, float] = field(default_factory=dict)
    ending: Mapping[str, Any] = field(default_factory=dict)
    script: str | None = None
    # Cures of other faults that were in when this was seen: a short second look.
    cures: Sequence[Change] = ()
    effects: Mapping[Change, Effect] = field(default_factory=dict)
    # Of changes that made no difference: one pair of runs that were longer.
    longer: Mapping[Change, Effect] = field(default_factory=dict)
    # Trials that were asked for and gave nothing, with the reason.
    failed: Mapping[Change, str] = field(default_factory=dict)

    def series(self, name: str) -> list[float]:
        """A scalar over the steps that have it.

        >>> Evidence(steps=[{"loss": 2.0}, {}, {"loss": 1.0}]).series("loss")
        [2.0, 1.0]
        """
        return [step[name] for step in self.steps if step.get(name) is not None]

    def probed(self, probe: str) -> list[Any]:
        """What a probe found, window by window, where it found anything."""
        return [w[probe] for w in self.windows if w.get(probe) not in (None, [], {})]

    def answers(self, changes: Sequence[Change]) -> list[Effect]:
        """The effects that are known of these changes."""
        return [self.effects[change] for change in changes if change in self.effects]


@dataclass(frozen=True)
class Judgement:
    """What a judge says of one cause, and what it would like to have tried."""

    status: Status
    because: str
    where: Where | None = None
    wrongness: Wrongness | None = None
    harm: Effect | None = None
    remedy: str = ""
    # Trials that would decide; the first that helps is the cure.
    wants: tuple[Change, ...] = ()
    # The change with which the rest is judged once this is proven.
    cure: Change | None = None


@dataclass(frozen=True)
class Cause:
    """A fault by name: what stage it belongs to and how it is judged. Its page is its docstring."""

    id: str
    stage: Stage
    # One line for the list of causes.
    summary: str
    judge: Callable[[Evidence], Judgement]
    # What the judge needs to see, for the list of causes.
    needs: tuple[str, ...] = ()
    # Causes that the same fault may also be blamed on.
    overlaps: tuple[str, ...] = ()
    # Whether true losses mean nothing while this fault is there.
    voids_trials: bool = False


def refuted(because: str) -> Judgement:
    """Tested, and not so."""
    return Judgement(Status.REFUTED, because)


def untested(because: str) -> Judgement:
    """Could not be tested, with the reason."""
    return Judgement(Status.UNTESTED, because)
