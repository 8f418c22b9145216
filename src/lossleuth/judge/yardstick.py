"""How far a run is behind a plain transformer that was trained on the very same batches.

The bound is measured on healthy programs of every make (`python -m bench yardstick`), not picked.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lossleuth.findings.data import Alignment
from lossleuth.findings.loss import TrueLoss
from lossleuth.types.evidence import NEXT_PHASE, Evidence
from lossleuth.types.yardstick import Yardstick

# Share of what the reference has learnt (from equal chances for all tokens on) that a run may be
# behind it: at its end, and before, where a slow start may still be made good. Of 51 comparisons of
# healthy programs the furthest behind are 0.32 (tied embeddings, drawn wide), 0.22 and 0.19; of 7
# that were seen for 35 % of their steps, 0.27 and 0.22 (2026-11-19).
MAX_BEHIND, MAX_BEHIND_EARLY = 0.36, 0.5
# Nats that it may be behind in any case.
MIN_BEHIND_NATS = 0.25
# Share of the steps, at the end, whose losses are compared; steps of a run too short to compare.
LAST, MIN_STEPS = 0.2, 50
# Runs that are over after fewer steps have hardly begun: those seen for 35 % had 88 to 147. One of
# the held-back programs, with a phase of 60 steps, is 0.363 behind there and 0.01 after 380 more.
FEW_STEPS = 150
# A rate that has grown by so much in the second half of what was seen is rising.
RISING = 1.05
# A reference of so large a share of the run's parameters is told to be as large.
ALIKE = 0.5
# Relative: differentiated losses so near to the true ones are true ones. Dropout makes more.
NEAR = 0.05

# Findings that are looked at here.
READS = (Alignment, TrueLoss)


@dataclass(frozen=True)
class Comparison:
    """The run and the references at the same steps, in nats per supervised token."""

    run: float
    reference: float
    # What the run may at most be behind the reference (infinite while its rate still rises), and
    # what that has learnt beyond equal chances for all tokens.
    allowed: float
    learnt: float
    # Of the n-gram mixture.
    mixture: float | None = None
    # Steps that the reference has made, and whether the run was not over by then, or hardly begun.
    steps: int = 0
    early: bool = False
    # Parameters of the reference and of the run, and the rate of the reference.
    parameters: int = 0
    trained: int = 0
    rate: float = 0.0

    @property
    def share_behind(self) -> float:
        """How far the run is behind, as a share of what the reference has learnt."""
        return (self.run - self.reference) / self.learnt if self.learnt > 0 else 0.0

    @property
    def is_behind(self) -> bool:
        """Whether the run is further behind than healthy ones are."""
        return not self.run - self.reference <= self.allowed

    @property
    def sentence(self) -> str:
        """For people; completes "No cause found, but ..." where the run is behind."""
        small = self.parameters < ALIKE * self.trained
        size = f"with {self.parameters / self.trained:.0%} of its size" if small else "of its size"
        begins = "something holds this run back: " if self.is_behind else ""
        seen = f" in {self.steps} steps" if self.early else ""
        mixture = "" if self.mixture is None else f", a mixture of n-grams {self.mixture:.2f}"
        return (
            f"{begins}a plain transformer {size} reaches {self.reference:.2f} on the same "
            f"batches{seen}{mixture}; this run {self.run:.2f}"
        )

    def as_json(self) -> dict[str, Any]:
        """The public form."""
        return asdict(self) | {"is_behind": self.is_behind}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Comparison:
        """What `as_json` made."""
        return cls(**{name: value for name, value in stored.items() if name != "is_behind"})


def told(evidence: Evidence) -> list[str]:
    """The comparison in a sentence, or why there is none."""
    found = compared(evidence)
    if isinstance(found, Comparison):
        return [found.sentence]
    return [] if found is None else [f"it is compared with no reference on its batches: {found}"]


def furthest_behind(firsts: Sequence[Evidence]) -> Comparison | None:
    """Of several phases that which is furthest behind its reference."""
    found = [one for one in map(compared, firsts) if isinstance(one, Comparison)]
    return max(found, key=lambda one: one.run - one.reference, default=None)


def why_no_yardstick(evidence: Evidence) -> str | None:
    """Why a run cannot be compared with a reference on its batches, if so."""
    offsets = {alignment.offset for alignment in evidence.all(Alignment)} - {None}
    if offsets - {1}:
        return "its targets are not the next tokens"
    if not any(true.loss is not None for true in evidence.all(TrueLoss)):
        return "its true loss is not known"
    if not sum(evidence.sizes):
        return "what it trains is not known"
    if len(evidence.steps) < MIN_STEPS:
        return f"{len(evidence.steps)} steps are too few to compare"
    return None


def compared(evidence: Evidence) -> Comparison | str | None:
    """The run and the references; why they cannot be compared; None where nothing was measured."""
    yardstick = evidence.yardstick
    if yardstick is None:
        return None
    if yardstick.why_not is not None:
        return yardstick.why_not
    reference = dict(zip(yardstick.steps, yardstick.losses, strict=True))
    if len(reference) < MIN_STEPS:
        return f"there was time for {len(reference)} steps of a reference"
    run, steps = _run_losses(evidence, reference)
    if not steps:
        return "its true loss is known on too few steps"
    own = statistics.fmean(run[step] for step in steps)
    others = statistics.fmean(reference[step] for step in steps)
    if not math.isfinite(others):
        return "the reference did not stay finite"
    early = len(reference) < FEW_STEPS or not _is_over(evidence, max(reference))
    learnt = math.log(yardstick.vocabulary) - others
    return Comparison(
        own,
        others,
        _allowed(evidence, learnt, early=early),
        learnt,
        _of_mixture(yardstick, steps),
        steps=len(reference),
        early=early,
        parameters=yardstick.parameters,
        trained=yardstick.trained,
        rate=yardstick.rate,
    )


def _allowed(evidence: Evidence, learnt: float, *, early: bool) -> float:
    rates = evidence.learning_rates
    if early and rates and rates[-1] > RISING * rates[len(rates) // 2]:
        # It still warms up.
        return math.inf
    return max(MIN_BEHIND_NATS, (MAX_BEHIND_EARLY if early else MAX_BEHIND) * learnt)


def _is_over(evidence: Evidence, last: int) -> bool:
    """Whether this is the last step of the run, or of its phase."""
    ended = evidence.ending.is_own or evidence.ending.how == NEXT_PHASE
    return ended and last >= (1 - LAST) * evidence.steps[-1].step


def _run_losses(
    evidence: Evidence, reference: Mapping[int, float]
) -> tuple[dict[int, float], list[int]]:
    """The run's true losses, and the last steps at which both are known."""
    true = {step: t.loss for step, t in evidence.by_step(TrueLoss) if t.loss is not None}
    own = {step.step: step.loss for step in evidence.steps if step.loss is not None}
    both = [step for step in true if step in own]
    end = max(reference)
    if both and all(math.isclose(own[s], true[s], rel_tol=NEAR) for s in both):
        last = sorted(step for step in reference if step in own)
        return own, last[-max(1, int(LAST * len(last))) :] if last else []
    # On one batch both have its noise, so that a single one says something.
    last = [step for step in sorted(true) if step in reference and step > end / 2]
    return true, last


def _of_mixture(yardstick: Yardstick, steps: list[int]) -> float | None:
    mixture = dict(zip(yardstick.mixture_steps, yardstick.mixture, strict=True))
    known = [mixture[step] for step in steps if step in mixture]
    return statistics.fmean(known) if known else None
