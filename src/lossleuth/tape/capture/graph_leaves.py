"""The leaves that a backward pass will reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def leaves_behind(roots: Sequence[Any]) -> list[Tensor]:
    """Tensors in whose `.grad` the gradient of `roots` would be accumulated.

    >>> import torch
    >>> weight = torch.ones(3, requires_grad=True)
    >>> leaves_behind([(2 * weight).sum()])[0] is weight
    True
    """
    found: dict[int, Tensor] = {}
    seen: set[Any] = set()
    waiting = [root.grad_fn for root in roots if isinstance(root, Tensor)]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor):
            found.setdefault(id(leaf), leaf)
        waiting.extend(following for following, _ in node.next_functions)
    return list(found.values())
