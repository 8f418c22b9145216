"""Hooks on all modules at once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

# What torch says to whoever calls a compiled module meanwhile; it is said of our hooks.
_SAID = re.escape("Using `torch.compile(module)` when there are global hooks")

Hook = Callable[..., None]


def listen_to_modules(after: Hook, before: Hook | None = None) -> Callable[[], None]:
    """Call `before` with every module's inputs and `after` with its output; gives the undoing."""
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
    """Let warnings pass again, in the list that is in use now.

    The program may have put its own list in the place of that one, and put it back later.
    """
    ours = [f for f in warnings.filters if getattr(f[1], "pattern", None) == _SAID]
    for ignored in ours:
        warnings.filters.remove(ignored)  # type: ignore[attr-defined]  # a list, in fact
