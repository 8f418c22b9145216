"""An operation done in the types in which it was recorded, within a replay in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.tape import Operation, Ref, Tape


def done_as_recorded(
    tape: Tape,
    operation: Operation,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    widened: Callable[[Tensor], Tensor],
) -> Any:
    """The result from these arguments, narrowed before and widened after."""

    def narrowed(recorded: Any, value: Any) -> Any:
        if type(recorded) is Ref:
            there = tape.layouts[recorded.id].dtype
            return value.to(there) if value.dtype == torch.float64 else value
        if isinstance(recorded, list | tuple):
            pairs = zip(recorded, value, strict=True)
            return type(recorded)(narrowed(r, v) for r, v in pairs)
        return recorded if isinstance(recorded, torch.dtype) else value

    names = operation.kwargs
    result = operation.kind(
        *narrowed(operation.args, args), **{k: narrowed(names[k], v) for k, v in kwargs.items()}
    )
    if isinstance(result, list | tuple):
        return tuple(widened(r) if isinstance(r, Tensor) else r for r in result)
    return widened(result) if isinstance(result, Tensor) else result
