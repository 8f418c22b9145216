"""A report as one HTML file: own style, own script, nothing from anywhere else."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from pathlib import Path
from typing import assert_never

import numpy as np

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
    Section,
    Source,
    Table,
)
from lossleuth.report.document.numbers import shown
from lossleuth.report.render import heat, svg
from lossleuth.report.render.markup import Markup, closed, joined, tag, void

WORDS = {
    "proven": "proven",
    "suspected": "suspected",
    "healthy": "healthy",
    "cannot_tell": "cannot tell",
}


def rendered(document: Document) -> str:
    """The whole page."""
    page = _Page()
    body = joined(
        [
            tag("header", tag("h1", document.title), tag("p", document.subtitle)),
            tag("main", *(page.section(section) for section in document.sections)),
            _script(),
        ]
    )
    head = joined(
        [
            void("meta", charset="utf-8"),
            void("meta", http_equiv="Content-Security-Policy", content=_policy()),
            void("meta", name="viewport", content="width=device-width, initial-scale=1"),
            void("meta", name="referrer", content="no-referrer"),
            tag("title", document.title),
            tag("style", Markup(_asset("page.css"))),
        ]
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _script() -> Markup:
    return tag("script", Markup(_asset("page.js")))


def _policy() -> str:
    """Only this style and this script, and no way out."""
    style, script = (_digest(_asset(name)) for name in ("page.css", "page.js"))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


class _Page:
    """Renders blocks and numbers the pictures."""

    def __init__(self) -> None:
        self._pictures = 0

    def section(self, section: Section) -> Markup:
        blocks = [self._block(block) for block in section.blocks]
        heading = [tag("h2", section.title)] if section.title else []
        return tag("section", *heading, *blocks)

    def _block(self, block: Block) -> Markup:
        match block:
            case Paragraph():
                return tag("p", block.text, class_="strong" if block.strong else None)
            case Answer():
                status = tag("span", WORDS.get(block.status, block.status), class_="status")
                return tag("p", status, block.text, class_=f"answer {block.status}")
            case Bullets():
                return _bullets(block)
            case Source():
                return _source(block)
            case Diff():
                return _diff(block)
            case Table():
                return _table(block)
            case Chart():
                return self._chart(block)
            case HeatMap():
                return self._heat_map(block)
            case Folded():
                inside = [self._block(b) for b in block.blocks]
                return tag("details", tag("summary", block.title), *inside, id=block.anchor or None)
            case _:
                assert_never(block)

    def _named(self, title: str, told: str, note: str) -> tuple[str, Markup]:
        self._pictures += 1
        name = f"picture-{self._pictures}"
        parts = [
            tag("span", title, class_="name", id=f"{name}-title"),
            " ",
            tag("span", told, class_="told", id=f"{name}-told"),
        ]
        if note:
            parts += [" ", tag("span", note, class_="note")]
        return name, tag("figcaption", *parts)

    def _chart(self, chart: Chart) -> Markup:
        name, caption = self._named(chart.title, chart.told, chart.note)
        return tag(
            "figure",
            caption,
            svg.drawn(chart, name),
            _legend(chart),
            tag("output", class_="readout"),
            tag("details", tag("summary", "The numbers"), _table(_numbers(chart))),
            class_="chart",
        )

    def _heat_map(self, chart: HeatMap) -> Markup:
        name, caption = self._named(chart.title, chart.told, chart.note)
        return tag(
            "figure",
            caption,
            heat.drawn(chart, name),
            tag("output", class_="readout"),
            tag("details", tag("summary", "The numbers"), _table(_corners(chart), row_heads=True)),
            class_="heat",
        )


def _bullets(block: Bullets) -> Markup:
    parts = []
    for name, text in block.items:
        if name:
            parts.append(tag("dt", tag("code", name)))
        parts.append(tag("dd", text))
    return tag("dl", *parts)


def _source(block: Source) -> Markup:
    rows = []
    for number, line in enumerate(block.lines, block.first):
        kind = "marked" if number == block.marked else None
        rows.append(tag("span", tag("span", str(number), class_="number"), line, class_=kind))
    return Markup(tag("p", block.place, class_="place") + tag("pre", *rows))


def _diff(block: Diff) -> Markup:
    kinds = {"+": "plus", "-": "minus"}
    rows = [tag("span", line or " ", class_=kinds.get(line[:1])) for line in block.lines]
    return Markup(tag("p", block.place, class_="place") + tag("pre", *rows))


def _table(block: Table, *, row_heads: bool = False) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in block.head)))
    rows = []
    for row in block.rows:
        cells = [tag("td", cell) for cell in row]
        if row_heads and row:
            cells[0] = tag("th", row[0], scope="row")
        rows.append(tag("tr", *cells))
    caption = [tag("caption", block.title)] if block.title else []
    return tag("div", tag("table", *caption, head, tag("tbody", *rows)), class_="wide")


def _legend(chart: Chart) -> Markup:
    known: dict[str, tuple[int, bool, bool]] = {}
    for series, colour in zip(chart.series, svg.colours(chart.series), strict=True):
        known.setdefault(series.group or series.name, (colour, series.dots, series.faint))
    entries = []
    for name, (colour, dots, faint) in known.items():
        kind = f"c{colour}" + (" faint" if faint else "")
        line = (
            closed("circle", cx=16, cy=7, r=4)
            if dots
            else closed("path", class_="curve", d="M0 7H32")
        )
        sample = tag("svg", tag("g", line, class_=kind), viewBox="0 0 32 14", aria_hidden="true")
        entries.append(tag("li", sample, name))
    return tag("ul", *entries, class_="legend")


def _numbers(chart: Chart) -> Table:
    """What the picture shows, as a table: also what the pointer reads."""
    rows: dict[float, list[str]] = {}
    for place, series in enumerate(chart.series):
        for x, y in zip(series.xs, series.ys, strict=True):
            row = rows.setdefault(x, [""] * len(chart.series))
            row[place] = shown(y)
    head = ["step", *(f"{s.name} ({chart.unit})" if chart.unit else s.name for s in chart.series)]
    return Table("", head, [[shown(x), *rows[x]] for x in sorted(rows) if math.isfinite(x)])


def _corners(chart: HeatMap) -> Table:
    """First, lowest, highest and last of each row."""
    rows = []
    for name, cells in zip(chart.rows, chart.values, strict=True):
        found = np.array(cells, dtype=np.float64)
        there = found[np.isfinite(found)]
        ends = [found[0], there.min(), there.max(), found[-1]] if len(there) else []
        rows.append([name, *(shown(float(x), 3) for x in ends)] + [""] * (4 - len(ends)))
    unit = f" ({chart.unit})" if chart.unit else ""
    return Table("", ["", f"first{unit}", "lowest", "highest", "last"], rows)
