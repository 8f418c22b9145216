"""Lines of the user's source around a place."""

from __future__ import annotations

from pathlib import Path

from lossleuth.report.document.blocks import Source
from lossleuth.types.judgement import Where

# A line longer than this is no source that anybody wrote.
LONGEST = 400


def told(where: Where) -> str:
    """A place as it is told.

    >>> told(Where("train.py", 41))
    'train.py:41'
    """
    name = where.file or "an unknown place"
    return name if where.line is None else f"{name}:{where.line}"


def source_at(where: Where | None, around: int = 2) -> Source | None:
    """The line and some around it; None where there is no line, or no text."""
    if where is None or where.file is None or where.line is None:
        return None
    lines = lines_of(where.file)
    if not 1 <= where.line <= len(lines):
        return None
    first = max(1, where.line - around)
    shown = [line[:LONGEST] for line in lines[first - 1 : where.line + around]]
    place = told(where) + (f" in {where.module}" if where.module else "")
    return Source(place, first, shown, where.line)


def lines_of(name: str) -> list[str]:
    """The lines of a source file; none where it cannot be read."""
    try:
        text = Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.split("\n")]
