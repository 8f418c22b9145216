"""Rebinds functions in modules that imported them before we replaced them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

# Torch keeps the originals, as it does when patched right after its import.
LEFT_ALONE = ("torch", "lossleuth")


def reach_importers(replaced: Sequence[tuple[Any, Any]]) -> Callable[[], None]:
    """Replace each original by its replacement in every module that imported it; returns the undo.

    `from torch.nn.utils import clip_grad_norm_` makes a name of its own, which stays with the
    original if the import came before us.
    """
    ours = {id(original): (original, replacement) for original, replacement in replaced}
    changed: list[tuple[dict[str, Any], str, Any, Any]] = []
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] in LEFT_ALONE:
            continue
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict):
            continue
        for name, value in list(names.items()):
            pair = ours.get(id(value))
            if pair is not None and name not in _own_names(module_name, pair[0]):
                names[name] = pair[1]
                changed.append((names, name, *pair))

    def undo() -> None:
        for names, name, original, replacement in changed:
            if names.get(name) is replacement:
                names[name] = original

    return undo


def _own_names(module_name: str, original: Any) -> set[str]:
    """The name under which a function was defined: its owner is not an importer."""
    if getattr(original, "__module__", None) == module_name:
        return {getattr(original, "__name__", "")}
    return set()
