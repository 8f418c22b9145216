"""The first operation that turned finite numbers into NaN or infinity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lossleuth.findings.precision import FirstNonFinite
from lossleuth.probes.precision.operation_error import where
from lossleuth.probes.probe import Probe
from lossleuth.tape.op_schemas import tensors_in
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.gradients import shared_gradients
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import Operation
from lossleuth.tape.window import Backward, Window

# Infinity is what these are for.
_MASKS = ("full", "full_like", "masked_fill", "masked_fill_", "fill_", "where", "scalar_tensor")


def first_non_finite(window: Window, run: Backward) -> FirstNonFinite | None:
    """Where a loss became NaN or infinite; None if it is finite or its inputs were not."""
    found: list[FirstNonFinite] = []

    def each(
        operation: Operation, args: tuple[Any, ...], result: Any, _recorded: Callable[[], Any]
    ) -> None:
        if found or operation.name in _MASKS:
            return
        bad = [t for t in tensors_in(result) if t.is_floating_point() and not _finite(t)]
        inputs = [t for t in tensors_in(args) if t.is_floating_point() and t.numel()]
        if not bad or not inputs or any(bool(torch.isnan(t).any()) for t in inputs):
            return
        has_nan = bool(torch.isnan(bad[0]).any())
        if not has_nan and not all(map(_finite, inputs)):
            return  # an infinity that was put there on purpose is passed on
        largest = max(float(t[torch.isfinite(t)].abs().max()) for t in inputs if _any_finite(t))
        found.append(FirstNonFinite(*where(operation), "nan" if has_nan else "inf", largest))

    roots = [root for root in run.roots if root is not None]
    try:
        if shared_gradients(window, run, float64=False).is_finite:
            return None
    except CannotReplay:
        # It may still be possible without gradients.
        pass
    try:
        made = Replay(window.tape, float64=False, gradients=False).run(
            roots, before=run.at, each=each
        )
    except CannotReplay:
        return None
    return found[0] if found and not all(_finite(made[root]) for root in roots) else None


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _any_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).any())


PROBE = Probe(
    FirstNonFinite, lambda a: first_non_finite(a.window, a.roles.run) if a.roles else None
)
