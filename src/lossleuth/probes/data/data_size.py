"""The size of the dataset that a batch was taken from."""

from __future__ import annotations

import math

from lossleuth.findings.data import DataSize
from lossleuth.probes.probe import Probe
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.window import Window


def data_size(window: Window, roles: Roles | None) -> DataSize | None:
    """Elements of the largest integer tensor behind the tokens; None if unknown."""
    if roles is None or roles.tokens is None:
        return None
    tape = window.tape
    numbers = {roles.tokens}
    for operation in tape.needed_for([roles.tokens], roles.tokens_at):
        numbers.update(operation.inputs)
    sizes = [
        max(math.prod(tape.layouts[i].shape), _storage(tape.leaves[i]))
        for i in numbers
        if i in tape.leaves and not tape.layouts[i].dtype.is_floating_point
    ]
    return DataSize(max(sizes)) if sizes else None


def _storage(tensor: object) -> int:
    """Elements of the storage that a tensor is part of."""
    try:
        return int(tensor.untyped_storage().nbytes() // tensor.element_size())  # type: ignore[attr-defined]  # a tensor
    except (RuntimeError, NotImplementedError):
        return 0


PROBE = Probe(DataSize, lambda a: data_size(a.window, a.roles))
