"""Operations that move numbers about without changing them."""

from __future__ import annotations

_SEEN_DIFFERENTLY = (
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "flatten", "contiguous"),
    *("transpose", "t", "permute", "unsqueeze", "squeeze", "expand"),
)
_PARTS = (
    *("slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unbind"),
    *("index", "index_select", "masked_select", "constant_pad_nd"),
)
_COPIES = ("clone", "copy_", "_to_copy", "detach", "alias", "lift_fresh")
MOVES = frozenset((*_SEEN_DIFFERENTLY, *_PARTS, *_COPIES))
MASKS = frozenset(("where", "masked_fill"))
