"""Dropout that drops nothing, so that a replay measures as in evaluation mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.replay.substitutes import attention, named_arguments
from lossleuth.tape.tape import Operation


def without_dropout(
    operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], written: Tensor | None
) -> Any:
    """The result of a dropout that drops nothing; None for other random operations."""
    if operation.name == "native_dropout":
        return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
    if operation.name.startswith("_scaled_dot_product"):
        given = named_arguments(operation.kind, args, kwargs) | {"dropout_p": 0.0}
        return (attention(given), *([None] * (len(operation.outputs) - 1)))
    # An argument that is the operator's own default is not passed on.
    share = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    if operation.name == "bernoulli_" and isinstance(share, float) and written is not None:
        # Divided by the share of what is kept right after: 1 everywhere.
        return written.fill_(share) if written.is_floating_point() else None
    return None
