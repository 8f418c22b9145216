"""Numbers in a record that mean something by themselves, in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lossleuth.record.read import Record

# A float32 loss of about 10 is known to about 1e-6; four decimals are what people print.
LN_V_DIGITS = 5e-5


def alarms(record: Record) -> list[str]:
    """What is plainly wrong, one sentence each, most basic first."""
    return [*_not_finite(record), *_nothing_moves(record), *_loss_at_ln_v(record)]


def _not_finite(record: Record) -> Iterator[str]:
    losses = series(record, "loss")
    bad = np.flatnonzero(~np.isfinite(losses) & ~_absent(record, "loss"))
    if len(bad):
        first = int(record.steps[bad[0]])
        yield f"the loss is {losses[bad[0]]} at step {first}, the first of {len(bad)} such steps"
    if "grad_nonfinite" in record.columns:
        counts = np.nan_to_num(record.matrix("grad_nonfinite"))
        steps, tensors = np.nonzero(counts > 0)
        if len(steps):
            name = record.parameter_names[int(tensors[0])]
            step = int(record.steps[steps[0]])
            yield f"the gradient of {name} has {counts[steps[0], tensors[0]]:.0f} non-finite " + (
                f"entries at step {step}"
            )


def _nothing_moves(record: Record) -> Iterator[str]:
    rates = series(record, "lr")
    zero = np.flatnonzero(rates == 0)
    if len(zero):
        yield f"the learning rate is 0 in {len(zero)} of {len(rates)} steps"
    supervised = series(record, "supervised")
    empty = np.flatnonzero(supervised == 0)
    if len(empty):
        step = int(record.steps[empty[0]])
        yield f"no token is supervised at step {step}, the first of {len(empty)} such steps"
    if "update_rms" in record.columns and len(record.steps):
        updates = record.matrix("update_rms")
        known = ~np.isnan(updates)
        moved = np.where(known, updates, 0.0).max(axis=0) > 0
        still = known.any(axis=0) & ~moved
        if still.any() and still.all():
            yield f"no parameter moved in {len(record.steps)} steps"


def _loss_at_ln_v(record: Record) -> Iterator[str]:
    losses, classes = series(record, "loss"), series(record, "classes")
    usable = np.isfinite(losses) & np.isfinite(classes)
    if usable.sum() < 3:
        return
    size = int(classes[usable][-1])
    distance = np.abs(losses[usable] - math.log(size))
    if (distance < LN_V_DIGITS).all():
        yield (
            f"the loss is ln {size} = {math.log(size):.4f} at all {int(usable.sum())} steps: "
            "the output is constant"
        )


def series(record: Record, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A scalar for each step; NaN throughout where the run never had it."""
    if name not in record.scalar_names:
        return np.full(len(record), np.nan)
    return record.series(name)


def _absent(record: Record, name: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Where a step has no such number at all, which is not the same as NaN."""
    if name not in record.scalar_names:
        return np.ones(len(record), dtype=bool)
    return np.array([value is None for value in record.values(name)], dtype=bool)
