"""Read lines of the user's source around a place."""

from __future__ import annotations

from pathlib import Path

from lossleuth.report.document.blocks import Source
from lossleuth.types.judgement import Where

# Nobody writes longer lines of source by hand.
MAX_LINE_LENGTH = 400


def format_where(where: Where) -> str:
    """A place as `file:line`, or only the file.

    >>> format_where(Where("train.py", 41))
    'train.py:41'
    """
    name = where.file or "an unknown place"
    return name if where.line is None else f"{name}:{where.line}"


def format_place(where: Where) -> str:
    """A place with the module it belongs to.

    >>> format_place(Where("train.py", 41, "head"))
    'train.py:41 in head'
    """
    return format_where(where) + (f" in {where.module}" if where.module else "")


def source_at(where: Where | None, context: int = 2) -> Source | None:
    """The line with some lines before and after it; None if there is no line or no text."""
    if where is None or where.file is None or where.line is None:
        return None
    lines = lines_of(where.file)
    if not 1 <= where.line <= len(lines):
        return None
    first = max(1, where.line - context)
    shown = [line[:MAX_LINE_LENGTH] for line in lines[first - 1 : where.line + context]]
    return Source(format_place(where), first, shown, where.line)


def lines_of(name: str) -> list[str]:
    """The lines of a source file; none if it cannot be read."""
    try:
        text = Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.split("\n")]
