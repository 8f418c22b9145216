"""Where a run computes and in which format."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from lossleuth.types.errors import BadInput


def choose_device(wanted: str) -> torch.device:
    """The device that was asked for, if it is there.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise BadInput("a CUDA device", "none on this machine", "use --device cpu")
    return torch.device("cuda" if there and wanted != "cpu" else "cpu")


def device_at_hand(wanted: str) -> torch.device:
    """Where to use a trained model: the device of its training, else the CPU with a note."""
    if wanted == "cuda" and not torch.cuda.is_available():
        print("note: trained on CUDA, which is not there: the CPU is used", file=sys.stderr)
        return torch.device("cpu")
    return choose_device(wanted)


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 where asked for; weights stay in float32."""
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
