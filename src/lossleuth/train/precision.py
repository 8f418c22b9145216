"""Where a run computes and in which format."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from lossleuth.types import BadInput


def choose_device(wanted: str) -> torch.device:
    """The device that was asked for, if it is there.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise BadInput("a CUDA device", "none on this machine", "use --device cpu")
    return torch.device("cuda" if there and wanted != "cpu" else "cpu")


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 where asked for; weights stay in float32."""
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
