"""Hooks on all modules at once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

# Torch warns about our global hooks when a compiled module is called.
_SAID = re.escape("Using `torch.compile(module)` when there are global hooks")

Hook = Callable[..., None]


def listen_to_modules(after: Hook, before: Hook | None = None) -> Callable[[], None]:
    """Call `before` with every module's inputs and `after` with its output; returns the undo."""
    warnings.filterwarnings("ignore", _SAID, UserWarning)
    hooks: list[Any] = [register_module_forward_hook(after, always_call=before is not None)]
    if before is not None:
        hooks.append(register_module_forward_pre_hook(before))

    def undo() -> None:
        for hook in hooks:
            hook.remove()
        forget_filter()

    return undo


def forget_filter() -> None:
    """Remove our filter from the list of warning filters now in use.

    The program may have put its own list in the place of that one, and put it back later.
    """
    ours = [f for f in warnings.filters if getattr(f[1], "pattern", None) == _SAID]
    for ignored in ours:
        warnings.filters.remove(ignored)  # type: ignore[attr-defined]  # a list, in fact
