"""Everything that a judge may look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lossleuth.types.change import Change, Effect


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
    # Patches of torch that could not be applied, and why: what they see stays unseen.
    missing_patches: Mapping[str, str] = field(default_factory=dict)
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
