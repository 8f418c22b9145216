"""Render a report as Markdown, for example for a pull request."""

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
from lossleuth.report.document.numbers import format_number
from lossleuth.report.render.markup import visible

# Characters with a meaning in Markdown or HTML: anywhere, and at the start of a line.
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
    """Escape text so that no part of it becomes markup.

    >>> escaped("a_b <img>")
    'a\\\\_b \\\\<img\\\\>'
    >>> escaped("4.188"), escaped("4. is a list")
    ('4.188', '&#52;. is a list')
    """
    return _LEADING.sub(lambda found: _shielded(found[0]), inline(text))


def inline(text: str) -> str:
    """Escape text that does not start a line.

    >>> inline("4. is no list here, a_b no emphasis")
    '4. is no list here, a\\\\_b no emphasis'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(visible(text).split()))


def _shielded(start: str) -> str:
    """The start of a line, so that it does not become a heading, a list or a rule."""
    return f"{start[:-1]}&#{ord(start[-1])};" if start.isdigit() else f"\\{start}"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph():
            yield f"**{inline(block.text)}**" if block.strong else escaped(block.text)
        case Answer():
            yield f"> **{inline(block.label)}.** {inline(block.text)}"
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
            yield from _table(_chart_table(block))
        case HeatMap():
            yield from _table(_heat_map_table(block))
        case Folded():
            # Collapsed blocks are only in the HTML page.
            yield f"{escaped(block.title)}: see report.html."
        case _:
            assert_never(block)


def _code(text: str) -> str:
    """Text as inline code, with enough backticks."""
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
    yield f"| {' | '.join(inline(cell) for cell in table.head)} |"
    yield f"|{'---|' * len(table.head)}"
    for row in table.rows:
        yield f"| {' | '.join(inline(cell) for cell in row)} |"


def _chart_table(chart: Chart) -> Table:
    """A chart in a few numbers: first, minimum, maximum and last of each curve."""
    rows = []
    for series in chart.series:
        finite = [y for y in series.ys if math.isfinite(y)]
        ends = [finite[0], min(finite), max(finite), finite[-1]] if finite else []
        rows.append([series.name, *map(format_number, ends)] + [""] * (4 - len(ends)))
    rows += [[level.name, format_number(level.y), "", "", ""] for level in chart.levels]
    return Table(chart.title, ["", "first", "min", "max", "last"], rows)


def _heat_map_table(chart: HeatMap) -> Table:
    """The rows with the smallest and the largest values at the last step."""
    last = [
        (cells[-1], name) for name, cells in zip(chart.rows, chart.values, strict=True) if cells
    ]
    known = sorted((value, name) for value, name in last if math.isfinite(value))
    chosen = known if len(known) <= 6 else [*known[:3], *known[-3:]]
    rows = [[name, format_number(value, 3)] for value, name in chosen]
    title = f"{chart.title}, smallest and largest at the last step"
    return Table(title, ["parameter", chart.unit], rows)
