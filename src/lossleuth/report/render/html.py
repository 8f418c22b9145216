"""Render a report as one HTML file that loads nothing else."""

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
from lossleuth.report.document.numbers import format_number
from lossleuth.report.render import heat, svg
from lossleuth.report.render.markup import Markup, closed, joined, tag, void

# A longer name, or list of names, does not fit the first column and gets a line of its own.
MAX_COLUMN_NAME = 28


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
    """Allow only this style and this script, and no network."""
    style, script = (_digest(_asset(name)) for name in ("page.css", "page.js"))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


class _Page:
    """Renders blocks, and numbers the figures."""

    def __init__(self) -> None:
        self._figures = 0

    def section(self, section: Section) -> Markup:
        blocks = [self._block(block) for block in section.blocks]
        heading = [tag("h2", section.title)] if section.title else []
        return tag("section", *heading, *blocks)

    def _block(self, block: Block) -> Markup:
        match block:
            case Paragraph():
                return tag("p", block.text, class_="strong" if block.strong else None)
            case Answer():
                status = tag("span", block.label, class_="status")
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

    def _caption(self, title: str, description: str, note: str) -> tuple[str, Markup]:
        self._figures += 1
        name = f"figure-{self._figures}"
        parts = [
            tag("span", title, class_="name", id=f"{name}-title"),
            " ",
            tag("span", description, class_="description", id=f"{name}-description"),
        ]
        if note:
            parts += [" ", tag("span", note, class_="note")]
        return name, tag("figcaption", *parts)

    def _chart(self, chart: Chart) -> Markup:
        title = f"{chart.title} ({chart.unit})" if chart.unit else chart.title
        name, caption = self._caption(title, chart.description, chart.note)
        return tag(
            "figure",
            caption,
            svg.draw(chart, name),
            _legend(chart),
            tag("output", class_="readout"),
            tag("details", tag("summary", "Data"), _table(_chart_data(chart))),
            class_="chart",
        )

    def _heat_map(self, chart: HeatMap) -> Markup:
        name, caption = self._caption(chart.title, chart.description, chart.note)
        return tag(
            "figure",
            caption,
            heat.draw(chart, name),
            tag("output", class_="readout"),
            tag("details", tag("summary", "Data"), _table(_row_ranges(chart), row_heads=True)),
            class_="heat",
        )


def _bullets(block: Bullets) -> Markup:
    parts = []
    for name, text in block.items:
        if name:
            kind = "long" if len(name) > MAX_COLUMN_NAME else None
            parts.append(tag("dt", tag("code", name), class_=kind))
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
    if len(known) < 2:
        # The caption names a single curve.
        return Markup("")
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


def _chart_data(chart: Chart) -> Table:
    """The points of a chart; the page's script reads them for the pointer."""
    rows: dict[float, list[str]] = {}
    for place, series in enumerate(chart.series):
        for x, y in zip(series.xs, series.ys, strict=True):
            row = rows.setdefault(x, [""] * len(chart.series))
            row[place] = format_number(y)
    head = ["step", *(f"{s.name} ({chart.unit})" if chart.unit else s.name for s in chart.series)]
    return Table("", head, [[format_number(x), *rows[x]] for x in sorted(rows) if math.isfinite(x)])


def _row_ranges(chart: HeatMap) -> Table:
    """First, minimum, maximum and last value of each row."""
    rows = []
    for name, cells in zip(chart.rows, chart.values, strict=True):
        values = np.array(cells, dtype=np.float64)
        finite = values[np.isfinite(values)]
        ends = [values[0], finite.min(), finite.max(), values[-1]] if len(finite) else []
        rows.append([name, *(format_number(float(x), 3) for x in ends)] + [""] * (4 - len(ends)))
    unit = f" ({chart.unit})" if chart.unit else ""
    return Table("", ["parameter", f"first{unit}", "min", "max", "last"], rows)
