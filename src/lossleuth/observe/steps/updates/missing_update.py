"""A step whose update never comes, and where the script would make it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lossleuth.observe.steps.clipping import plain_number
from lossleuth.observe.steps.step import StepWindow
from lossleuth.observe.steps.updates.unchanged import Resting


def unfinished(
    window: StepWindow,
    optimizers: Iterable[Any],
    made_at: Mapping[Any, str],
    resting: Resting | None,
) -> dict[str, Any]:
    """Backward passes that no update followed, and the optimizers that could have made it."""
    idle = [{"class": type(o).__name__, "place": made_at.get(o)} for o in optimizers]
    backward = window.places.get("backward")
    return {
        "backwards": window.backwards,
        "places": window.places,
        "step_call": step_call_after(backward) if backward else None,
        "idle_optimizers": idle,
        "moved": None if resting is None else resting.moved(),
        "losses": [plain_number(x) for x in (*window.losses[:4], *window.losses[-4:])],
        "supervised": window.supervised,
        "unsupervised": window.unsupervised,
        "empty_sums": window.empty_sums,
    }


def step_call_after(place: str) -> str | None:
    """The first call of a method `step` after a line of a file, in the order of its text.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "train.py"
    >>> _ = file.write_text("loss.backward()\\nif ready():\\n    optimizer.step()\\n")
    >>> step_call_after(f"{file}:1").rpartition(":")[2]
    '3'
    """
    file, _, line = place.rpartition(":")
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    lines = sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
    )
    after = [number for number in lines if number >= int(line or 0)]
    return f"{file}:{(after or lines)[0]}" if lines else None
