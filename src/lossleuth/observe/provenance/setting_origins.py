"""Finds the file that a setting came from by its value: `peak: 0.2` in a file that was read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

LARGEST_FILE = 200_000
LONGEST_LINE = 300
_PAIR = re.compile(r"""["']?[\w.\-]+["']?\s*[:=]\s*["']?(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)""")


def setting_origins(
    wanted: Mapping[str, Iterable[float]], paths: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """For each setting, the file and line that assigns one of its values to a name.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "settings.json"
    >>> _ = file.write_text('{"seed": 1,\\n "peak": 2e-1}')
    >>> setting_origins({"lr": [0.2]}, [str(file)])["lr"]["line"]
    2
    """
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for line, value in _pairs(path):
            for name, values in wanted.items():
                if name not in found and any(_same(value, v) for v in values):
                    found[name] = {"file": path, "line": line, "value": value}
    return found


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6) and one != 0


def _pairs(path: str) -> Iterable[tuple[int, float]]:
    """Numbers assigned to names in a small text file, with their lines."""
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            return
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) <= LONGEST_LINE:
            for match in _PAIR.finditer(line):
                yield number, float(match.group(1))
