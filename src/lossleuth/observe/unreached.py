"""Where a script would make the update that never comes."""

from __future__ import annotations

import ast
from pathlib import Path


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
