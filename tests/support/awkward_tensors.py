"""Six numbers in tensors that their address alone does not describe."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Marked(Tensor):
    """Any subclass."""


def shrunk() -> Tensor:
    tensor = torch.ones(6)
    tensor.untyped_storage().resize_(23)
    return tensor


def freed() -> Tensor:
    tensor = torch.ones(6)
    tensor.untyped_storage().resize_(0)
    return tensor


AWKWARD: dict[str, Callable[[], Tensor]] = {
    "strided": lambda: torch.ones(12)[::2],
    "expanded": lambda: torch.ones(1, 2).expand(3, 2),
    "int": lambda: torch.ones(6, dtype=torch.int32),
    "complex": lambda: torch.ones(6, dtype=torch.complex64),
    "meta": lambda: torch.ones(6, device="meta"),
    "sparse": lambda: torch.ones(6).to_sparse(),
    "mkldnn": lambda: torch.ones(6).to_mkldnn(),
    "subclass": lambda: torch.ones(6).as_subclass(Marked),
    "size": lambda: torch.ones(5),
    "shrunk": shrunk,
    "freed": freed,
    "zeros without memory": lambda: torch._efficientzerotensor(6),
}
