"""Whether a gradient may overwrite the logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lossleuth.torch_internals import saved_results


def refuse_if_needed(logits: Tensor) -> None:
    """Refuse to overwrite logits that are needed, or that lie in memory more than once.

    What torch alone knows of, such as another loss of the same logits, it refuses in its backward
    pass: the logits are marked as changed.

    >>> refuse_if_needed(torch.zeros(3, 4, requires_grad=True))
    Traceback (most recent call last):
    ValueError: expected logits that were computed, found a leaf that requires grad: its values \
are its own, so pass inplace=False
    """
    if logits.requires_grad and logits.is_leaf:
        raise ValueError(
            "expected logits that were computed, found a leaf that requires grad: its values are "
            "its own, so pass inplace=False"
        )
    if overlaps(logits):
        raise ValueError(
            f"expected logits of which each number has a place of its own, found strides "
            f"{logits.stride()} for shape {tuple(logits.shape)}: pass inplace=False"
        )
    for tensor in (logits, logits._base):
        node = None if tensor is None else tensor.grad_fn
        if node is not None and _keeps(node, logits):
            raise ValueError(
                f"expected logits that autograd does not need any more, found the result of "
                f"{node.name()}, whose gradient is computed from it: pass inplace=False"
            )


def overlaps(tensor: Tensor) -> bool:
    """Whether two elements may share memory, as after `expand`.

    >>> overlaps(torch.zeros(1, 4).expand(3, 4)), overlaps(torch.zeros(3, 4, 5)[:, 1:])
    (True, False)
    """
    if tensor.is_contiguous():
        return False
    extent = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride < extent:
                return True
            extent = stride * (size - 1) + extent
    return False


def mark_changed(logits: Tensor) -> None:
    """Mark the tensor as changed for autograd."""
    if not logits.is_inference():
        torch.autograd.graph.increment_version(logits)


def _keeps(node: Any, logits: Tensor) -> bool:
    memory = logits.untyped_storage().data_ptr()
    return any(
        isinstance(saved, Tensor) and saved.untyped_storage().data_ptr() == memory
        for saved in saved_results(node)
    )
