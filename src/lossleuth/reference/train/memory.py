"""Refuse what can never fit into memory, before it is tried."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lossleuth.reference.train.model import ModelShape
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.types.errors import BadInput

FLOAT_BYTES = 4
# Weight, gradient, and Adam's two moments.
FLOATS_PER_PARAMETER = 4
# Inputs and targets in int64.
TOKEN_BYTES = 16
CPU_ALLOCATOR = "DefaultCPUAllocator: "


def check_memory(shape: ModelShape, settings: TrainSettings, device: torch.device) -> None:
    """Refuse a run whose least need is more than the device has."""
    needed, there = least_bytes(shape, settings), total_bytes(device)
    if needed > there:
        raise BadInput(
            f"a model and batches that fit the {_gigabytes(there)} of memory of {device}",
            f"settings that need {_gigabytes(needed)} or more",
            "lower --width, --layers, --batch, --context or --accumulation",
        )


def least_bytes(shape: ModelShape, settings: TrainSettings) -> int:
    """A bound from below: parameters with their optimizer state, the tokens of a step, its logits
    and one activation per layer. What a step really takes is more.

    >>> least_bytes(ModelShape(vocabulary=10, context=8, layers=1, heads=2, width=16),
    ...             TrainSettings(context=8, batch=4, layers=1, heads=2, width=16))
    61440
    """
    D = shape.width
    matrices = shape.vocabulary * (1 if shape.tied else 2)
    if shape.positions == "learned":
        matrices += shape.context
    parameters = matrices * D + shape.layers * (12 * D * D + 13 * D) + 2 * D
    tokens = settings.batch * shape.context
    activations = tokens * (shape.vocabulary + shape.layers * D)
    return (
        parameters * FLOATS_PER_PARAMETER + activations
    ) * FLOAT_BYTES + tokens * settings.accumulation * TOKEN_BYTES


def total_bytes(device: torch.device) -> int:
    """All the memory that the device has."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def memory_told_plainly() -> Iterator[None]:
    """Turn torch's failures to allocate into one sentence; other errors pass."""
    try:
        yield
    except RuntimeError as error:
        # On the CPU torch has no class of its own for it.
        if not isinstance(error, torch.OutOfMemoryError) and CPU_ALLOCATOR not in str(error):
            raise
        raise BadInput(
            "room in memory for the model and its batches",
            "that torch could not allocate it",
            "train with lower --width, --layers, --batch or --context",
        ) from None


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
