"""A report as Markdown that reads well in a pull request."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import assert_never

from lossleuth.report.document.blocks import (
    Answer,
    Block,
    Bullets,
    Chart,
    Diff,
    Document,
    Folded,
    HeatMap,
    Paragraph,
    Source,
    Table,
)
from lossleuth.report.document.numbers import shown
from lossleuth.report.render.markup import visible

# Characters that mean something to Markdown or to HTML inside it, anywhere and at the beginning.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$@])")
_LEADING = re.compile(r"^([#+=!-]|\d+(?=[.)](?:\s|$)))")


def rendered(document: Document) -> str:
    """The whole report."""
    lines = [f"# {escaped(document.title)}", "", escaped(document.subtitle), ""]
    for section in document.sections:
        if section.title:
            lines += [f"## {escaped(section.title)}", ""]
        for block in section.blocks:
            lines += [*_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    """Text that stays text.

    >>> escaped("a_b <img>")
    'a\\\\_b \\\\<img\\\\>'
    >>> escaped("4.188"), escaped("4. is a list")
    ('4.188', '&#52;. is a list')
    """
    plain = _SPECIAL.sub(r"\\\1", " ".join(visible(text).split()))
    return _LEADING.sub(lambda found: _shielded(found[0]), plain)


def _shielded(start: str) -> str:
    """The beginning of a line that must not become a heading, a list or a rule."""
    return f"{start[:-1]}&#{ord(start[-1])};" if start.isdigit() else f"\\{start}"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph():
            yield f"**{escaped(block.text)}**" if block.strong else escaped(block.text)
        case Answer():
            yield f"> **{escaped(block.status.replace('_', ' '))}**: {escaped(block.text)}"
        case Bullets():
            for name, text in block.items:
                yield f"- {_code(name)}: {escaped(text)}" if name else f"- {escaped(text)}"
        case Source():
            yield _code(block.place)
            yield ""
            numbered = [
                f"{'>' if n == block.marked else ' '} {n:>5} {line}"
                for n, line in enumerate(block.lines, block.first)
            ]
            yield from _fenced(numbered, "")
        case Diff():
            yield _code(block.place)
            yield ""
            yield from _fenced(block.lines, "diff")
        case Table():
            yield from _table(block)
        case Chart():
            yield from _table(_ends(block))
        case HeatMap():
            yield from _table(_extremes(block))
        case Folded():
            # What folds away in a page is left to the page.
            yield f"{escaped(block.title)}: see report.html."
        case _:
            assert_never(block)


def _code(text: str) -> str:
    """Text between as many backticks as it takes."""
    plain = " ".join(visible(text).split())
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", plain)), default=0))
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{pad}{plain}{pad}{ticks}" if plain else ""


def _fenced(lines: Sequence[str], language: str) -> Iterator[str]:
    plain = [visible(line) for line in lines]
    longest = max((len(run) for line in plain for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from plain
    yield fence


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"{escaped(table.title)}:"
        yield ""
    yield f"| {' | '.join(escaped(cell) for cell in table.head)} |"
    yield f"|{'---|' * len(table.head)}"
    for row in table.rows:
        yield f"| {' | '.join(escaped(cell) for cell in row)} |"


def _ends(chart: Chart) -> Table:
    """A picture in a few numbers: where each curve begins, its lowest and highest, its end."""
    rows = []
    for series in chart.series:
        there = [y for y in series.ys if math.isfinite(y)]
        ends = [there[0], min(there), max(there), there[-1]] if there else []
        rows.append([series.name, *map(shown, ends)] + [""] * (4 - len(ends)))
    rows += [[level.name, shown(level.y), "", "", ""] for level in chart.levels]
    return Table(chart.title, ["", "first", "lowest", "highest", "last"], rows)


def _extremes(chart: HeatMap) -> Table:
    """The rows with the smallest and the largest numbers at the end."""
    last = [
        (cells[-1], name) for name, cells in zip(chart.rows, chart.values, strict=True) if cells
    ]
    known = sorted((value, name) for value, name in last if math.isfinite(value))
    chosen = known if len(known) <= 6 else [*known[:3], *known[-3:]]
    rows = [[name, shown(value, 3)] for value, name in chosen]
    title = f"{chart.title}, smallest and largest at the last step"
    return Table(title, ["parameter", chart.unit], rows)
