"""Writes finished steps to the record, in batches.

What a hook does right after a backward pass costs several times what it costs when its code and
data are in the processor's cache. So only what cannot wait is done in a step, and the rest for
several steps at once: at most `MAX_WAIT_SECONDS` later, and before anything else is written.
"""

from __future__ import annotations

import math
import resource
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lossleuth.observe.steps.clipping import ClipImpact, clip_effect, plain_number
from lossleuth.observe.steps.parameters.readings import READINGS, Matrix
from lossleuth.observe.steps.parameters.table import Measured, ParameterTable
from lossleuth.observe.steps.step import StepWindow
from lossleuth.record.write import RecordWriter

MAX_WAIT_SECONDS = 0.25
MAX_WAITING_STEPS = 64


@dataclass(slots=True)
class ClosedStep:
    """A step with what was measured in it; times are seconds on the run's clock."""

    number: int
    window: StepWindow
    ended: float
    own_seconds: float
    measured: list[Measured]


class ClosedSteps:
    """Collects steps and writes them in order."""

    def __init__(self, writer: Callable[[], RecordWriter], table: ParameterTable) -> None:
        self._writer = writer
        self._table = table
        self._waiting: list[ClosedStep] = []
        # How many parameters the record knows of.
        self.rows = 0
        self._written = -math.inf
        self._last_places: dict[str, str] = {}
        self._impact = ClipImpact()

    def add(self, step: ClosedStep) -> None:
        """Keep a step; write all waiting steps if it is time."""
        self._waiting.append(step)
        if (
            step.ended - self._written >= MAX_WAIT_SECONDS
            or len(self._waiting) >= MAX_WAITING_STEPS
        ):
            self._written = step.ended
            self.write()

    def write(self) -> None:
        """Write all waiting steps; one that fails does not stop those after it."""
        waiting = list(self._waiting)
        if not waiting:
            return
        ready: list[tuple[dict[str, Any], Matrix | None]] = []
        failed: Exception | None = None
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        try:
            matrices = self._table.matrices_of([step.measured for step in waiting], self.rows)
            for step, matrix in zip(waiting, matrices, strict=True):
                try:
                    ready.append(
                        (self._scalars(step, matrix, memory), matrix if len(matrix) else None)
                    )
                except Exception as error:
                    failed = error
        except Exception as error:
            failed = error
        # Else a signal handler has written them meanwhile.
        if self._waiting[: len(waiting)] == waiting:
            del self._waiting[: len(waiting)]
            self._writer().steps(ready)
        if failed is not None:
            raise failed

    def _scalars(self, step: ClosedStep, matrix: Matrix, memory: float) -> dict[str, Any]:
        window = step.window
        losses = [plain_number(loss) for loss in window.losses]
        norm = global_norm(matrix)
        effect = clip_effect(norm, window.clips) if norm is not None else None
        impact = None
        if effect is not None and math.isfinite(effect.norm_before):
            impact = self._impact.after(effect.norm_before, effect.factor, window.betas)
        seconds = step.ended - window.began
        scalars: dict[str, Any] = {
            "step": step.number,
            "elapsed": step.ended,
            "seconds": seconds,
            "own_seconds": step.own_seconds,
            "phases": window.seconds,
            "backwards": window.backwards,
            "updates": len(window.updated_by),
            "updated_by": window.updated_by,
            "memory_mb": memory,
        }
        optional = {
            "loss": sum(losses) / len(losses) if losses else None,
            "losses": losses if len(losses) > 1 else None,
            "loss_scale": window.loss_scale,
            "reads": [[_number(value), place] for value, place in window.reads] or None,
            "lr": window.rates[0] if window.rates else None,
            "rates": window.rates if len(window.rates) > 1 else None,
            "skipped_by": window.skipped_by or None,
            "trained": _trained(window.trained),
            "grad_norm": norm,
            "grad_norm_before_clip": effect.norm_before if effect else None,
            "clip_factor": effect.factor if effect and window.clips else None,
            "clip_cosine": effect.cosine if effect and window.clips else None,
            "clip_update_change": impact if window.clips else None,
            "clip_limit": window.clips[-1].limit if window.clips else None,
            "supervised": window.supervised,
            "unsupervised": window.unsupervised or None,
            "empty_sums": window.empty_sums or None,
            "classes": window.classes,
            "unigram": window.unigram,
            **_batch(window, seconds),
        }
        if window.places and window.places != self._last_places:
            optional["places"] = self._last_places = window.places
        return scalars | {name: value for name, value in optional.items() if value is not None}


def _trained(numbers: list[int | None]) -> int | list[int] | None:
    """What was trained in a step: mostly one thing.

    >>> _trained([3]), _trained([2, 0, 2]), _trained([None])
    (3, [0, 2], None)
    """
    if len(numbers) == 1:
        return numbers[0]
    found = sorted({number for number in numbers if number is not None})
    return found or None


def _batch(window: StepWindow, seconds: float) -> dict[str, Any]:
    """Fingerprint and size of the tokens of a step, micro-batches taken together."""
    if not window.micro_batches:
        return {}
    tokens = sum(batch.count for batch in window.micro_batches)
    hashes = [batch.hash & 0xFFFFFFFFFFFFFFFF for batch in window.micro_batches]
    combined = hashes[0] if len(hashes) == 1 else zlib.crc32(repr(hashes).encode())
    return {
        "batch": f"{combined:016x}",
        "micro_batches": [f"{h:016x}" for h in hashes] if len(hashes) > 1 else None,
        "tokens": tokens,
        "largest_token": max(batch.largest for batch in window.micro_batches),
        "tokens_per_second": tokens / seconds if seconds else None,
    }


def global_norm(matrix: Matrix) -> float | None:
    """L2 norm over all gradients that are there; a gradient that is NaN makes it NaN.

    >>> rows = np.full((2, len(READINGS)), np.nan)
    >>> rows[0, READINGS.index("grad_l2")], rows[0, READINGS.index("grad_nonfinite")] = 3.0, 0
    >>> global_norm(rows)
    3.0
    """
    norms = matrix[:, READINGS.index("grad_l2")]
    total = float(norms @ norms)
    if math.isnan(total):
        # Of a gradient that is not there, nothing was counted.
        norms = norms[~np.isnan(matrix[:, READINGS.index("grad_nonfinite")])]
        total = float(norms @ norms)
    return math.sqrt(total) if len(norms) else None


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) else float(value)
