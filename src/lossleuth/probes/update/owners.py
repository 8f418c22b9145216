"""Why a tensor is in no optimizer: is it a registered parameter, or hidden in an attribute?

A list of layers and a bare tensor are attributes that `parameters()` does not see.
"""

from __future__ import annotations

import ast
import gc
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from lossleuth.places import is_library
from lossleuth.source_lines import assigned_by

# Containers within containers that are searched for a tensor. Picked by hand.
MAX_DEPTH = 3


@dataclass(frozen=True)
class Holder:
    """Whether a module has the tensor as a parameter; else the line that hides it."""

    is_registered: bool
    hidden_at: str | None = None


def holder_of(tensor: Tensor) -> Holder:
    """Search all modules of the process."""
    # By type alone: attribute access runs code in some objects.
    modules = [m for m in gc.get_objects() if issubclass(type(m), nn.Module)]
    modules = [m for m in modules if "_parameters" in m.__dict__]
    hiding = _hiding_attribute(tensor, modules)
    if hiding is not None:
        return Holder(is_registered=False, hidden_at=assignment(*hiding))
    return Holder(any(tensor is p for m in modules for p in m._parameters.values()))


def held_by_optimizers() -> set[int]:
    """The ids of all tensors that some optimizer holds."""
    found = [o for o in gc.get_objects() if issubclass(type(o), Optimizer)]
    groups = [group for o in found for group in o.__dict__.get("param_groups", ())]
    return {id(parameter) for group in groups for parameter in group.get("params", ())}


def _hiding_attribute(
    tensor: Tensor, modules: Sequence[nn.Module]
) -> tuple[type[nn.Module], str] | None:
    """The class and attribute that keep a tensor, or its module, from `parameters()`."""
    for owner in modules:
        for name, value in vars(owner).items():
            if name.startswith("_") or not any(t is tensor for t in _tensors(value, MAX_DEPTH)):
                continue
            if not any(p is tensor for p in owner.parameters()):
                return type(owner), name
    return None


def _tensors(value: Any, depth: int) -> Iterator[Tensor]:
    """Tensors in a value, in lists and dictionaries in it, and in modules in those."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()
    elif depth and isinstance(value, list | tuple | set):
        for item in value:
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth - 1)


def assignment(kind: type, name: str) -> str | None:
    """Where a class gives its instances that attribute, as file:line."""
    try:
        file = inspect.getsourcefile(kind)
        tree = ast.parse(Path(file or "").read_bytes())
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if file is None or is_library(file):
        return None
    lines = [
        node.lineno
        for own in ast.walk(tree)
        if isinstance(own, ast.ClassDef) and own.name == kind.__name__
        for node in ast.walk(own)
        if isinstance(node, ast.stmt) and _assigns(node, name)
    ]
    return f"{file}:{min(lines)}" if lines else None


def _assigns(node: ast.stmt, name: str) -> bool:
    parts = assigned_by(node)
    return any(isinstance(part, ast.Attribute) and part.attr == name for part in parts)
