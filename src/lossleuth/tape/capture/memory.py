"""What operations do to memory, and which of their results a recording has to keep."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import traits_of
from lossleuth.torch_internals import OpOverload, memory_key

READ = torch.ops.aten._local_scalar_dense.default


def written_tensors(
    func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Tensor]:
    """The tensors that an operation with these arguments writes to."""
    found: list[Any] = []
    for position, name in traits_of(func).written:
        value = args[position] if position < len(args) else kwargs.get(name)
        found.extend(value if isinstance(value, list | tuple) else (value,))
    return [value for value in found if isinstance(value, Tensor)]


def kept_results(func: OpOverload, inputs: list[Tensor], results: tuple[Any, ...]) -> Any:
    """Results that must be those of the recording whenever the operation is done again."""
    if func is READ:
        return results
    traits = traits_of(func)
    # Attention draws its mask inside, where nobody can see it: its results would not help.
    if traits.is_random and not traits.is_fused_attention:
        return tuple(r.detach().clone() if isinstance(r, Tensor) else r for r in results)
    if not any(isinstance(r, Tensor) and _is_discrete(r) for r in results):
        return None
    if any(tensor.is_floating_point() for tensor in inputs):
        # A choice, such as the largest of some numbers, may fall differently in other precision.
        return tuple(
            r.detach().clone() if isinstance(r, Tensor) and _is_discrete(r) else None
            for r in results
        )
    return None


def memory_of(tensor: Tensor) -> int | None:
    """Something that tensors in the same memory share, while one of them is there."""
    try:
        return memory_key(tensor)
    except (NotImplementedError, RuntimeError):
        return None


def seen_alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors look at their memory in the same way."""
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
    )


def _is_discrete(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex()
