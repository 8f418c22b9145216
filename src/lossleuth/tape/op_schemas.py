"""What an operation's schema says: which arguments it writes to, whether it returns a view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from lossleuth.torch_internals import OpOverload, schema_of

aten = torch.ops.aten

# They return uninitialised memory.
EMPTY = frozenset(
    ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
)
# Their output shares memory with their input although the schema does not say so.
_ALIASING = frozenset(("_unsafe_view", "lift_fresh", "_reshape_alias"))
# Types of arguments that hold no tensor.
PLAIN_TYPES = frozenset((int, float, bool, str, type(None), torch.dtype))
# Namespaces whose derivatives belong to torch itself.
_NATIVE = frozenset(("aten", "prims", "prim"))

# Operations that move numbers about without changing them.
_SEEN_DIFFERENTLY = (
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "flatten", "contiguous"),
    *("transpose", "t", "permute", "unsqueeze", "squeeze", "expand"),
)
_PARTS = (
    *("slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unbind"),
    *("index", "index_select", "masked_select", "constant_pad_nd", "_pack_padded_sequence"),
)
_COPIES = ("clone", "copy_", "_to_copy", "detach", "alias", "lift_fresh")
MOVES = frozenset((*_SEEN_DIFFERENTLY, *_PARTS, *_COPIES))
MASKS = frozenset(("where", "masked_fill"))


@cache
def short_name(operation: OpOverload) -> str:
    """The name without namespace and overload.

    >>> short_name(aten.add.Tensor)
    'add'
    """
    return str(schema_of(operation).name).split("::")[1]


@cache
def written_arguments(operation: OpOverload) -> tuple[tuple[int, str], ...]:
    """Position and name of each argument that the operation writes to.

    >>> written_arguments(aten.add_.Tensor), written_arguments(aten.add.Tensor)
    (((0, 'self'),), ())
    """
    arguments = enumerate(schema_of(operation).arguments)
    return tuple((i, a.name) for i, a in arguments if a.alias_info and a.alias_info.is_write)


@cache
def is_view(operation: OpOverload) -> bool:
    """Whether the output is a view of the first input.

    >>> is_view(aten.transpose.int), is_view(aten.add_.Tensor)
    (True, False)
    """
    if written_arguments(operation):
        return False
    aliases = any(returned.alias_info is not None for returned in schema_of(operation).returns)
    return aliases or short_name(operation) in _ALIASING


@cache
def is_random(operation: OpOverload) -> bool:
    """Whether it draws random numbers."""
    return torch.Tag.nondeterministic_seeded in operation.tags


@cache
def is_fused_attention(operation: OpOverload) -> bool:
    """Whether it is one of torch's fused attention kernels.

    >>> is_fused_attention(aten._scaled_dot_product_flash_attention_for_cpu.default)
    True
    """
    return short_name(operation).startswith("_scaled_dot_product")


@cache
def is_foreign(operation: OpOverload) -> bool:
    """Whether a third party registered it, with a derivative of its own."""
    return operation.namespace not in _NATIVE


@dataclass(frozen=True, slots=True)
class Traits:
    """All of that about one operation, found with one look."""

    name: str
    written: tuple[tuple[int, str], ...]
    is_view: bool
    is_random: bool
    is_fused_attention: bool


@cache
def traits_of(operation: OpOverload) -> Traits:
    """What its schema says of an operation.

    >>> traits_of(aten.transpose.int).is_view, traits_of(aten.add_.Tensor).written
    (True, ((0, 'self'),))
    """
    return Traits(
        name=short_name(operation),
        written=written_arguments(operation),
        is_view=is_view(operation),
        is_random=is_random(operation),
        is_fused_attention=is_fused_attention(operation),
    )


def tensors_in(values: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dictionaries."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            # Most arguments are numbers.
            if type(value) not in PLAIN_TYPES:
                yield from tensors_in(value)
    elif isinstance(values, dict):
        for value in values.values():
            if type(value) not in PLAIN_TYPES:
                yield from tensors_in(value)
