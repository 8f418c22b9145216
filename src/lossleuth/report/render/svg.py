"""Draw a chart as SVG: curves with gaps, reference lines, axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lossleuth.report.document.blocks import Chart, Series
from lossleuth.report.document.numbers import format_number, labels, powers, ticks
from lossleuth.report.render.markup import Markup, closed, joined, tag

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 34
COLOURS = 6
# The span of larger values would overflow.
MAX_DRAWABLE = 1e300


@dataclass(frozen=True)
class Frame:
    """Maps values to coordinates in the picture."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    logarithmic: bool

    def x(self, value: float) -> float:
        """The horizontal coordinate."""
        span = self.high_x - self.low_x
        share = (value - self.low_x) / span if span else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """The vertical coordinate, from the top."""
        low, high, at = self.low_y, self.high_y, value
        if self.logarithmic:
            low, high, at = math.log10(low), math.log10(high), math.log10(value)
        share = (at - low) / (high - low) if high > low else 0.5
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def is_drawable(self, y: float) -> bool:
        """Whether a value can be drawn."""
        return _is_drawable(y, self.logarithmic)


def frame_of(chart: Chart) -> Frame | None:
    """The limits of everything that is drawn; None if there is nothing."""
    pairs = [
        (x, y)
        for series in chart.series
        for x, y in zip(series.xs, series.ys, strict=True)
        if math.isfinite(x) and _is_drawable(y, chart.logarithmic)
    ]
    if not pairs:
        return None
    heights = [y for _, y in pairs]
    levels = [level.y for level in chart.levels if _is_drawable(level.y, chart.logarithmic)]
    low, high = min([*heights, *levels]), max([*heights, *levels])
    if chart.logarithmic:
        low, high = (low / 1.5, high * 1.5) if low == high else (low, high)
    else:
        # Tiny differences are not magnified to the full height.
        room = max(0.04 * (high - low), 0.005 * max(abs(high), abs(low)), 1e-12)
        low, high = low - room, high + room
    return Frame(min(x for x, _ in pairs), max(x for x, _ in pairs), low, high, chart.logarithmic)


def _is_drawable(y: float, logarithmic: bool) -> bool:
    return math.isfinite(y) and abs(y) < MAX_DRAWABLE and (y > 0 or not logarithmic)


def draw(chart: Chart, name: str) -> Markup:
    """The picture, or a sentence if there are no data."""
    frame = frame_of(chart)
    if frame is None:
        return tag("p", "No data recorded.", class_="none")
    lines, names = _levels(chart, frame)
    parts = [*_axes(frame), *lines]
    for series, colour in zip(chart.series, colours(chart.series), strict=True):
        parts.append(_curve(series, frame, colour))
    # On top of the curves, so that names stay legible.
    parts += names
    parts.append(closed("line", class_="cursor", x1=0, x2=0, y1=TOP, y2=HEIGHT - BOTTOM))
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_labelledby=f"{name}-title {name}-description",
        tabindex="0",
        data_left=LEFT,
        data_right=WIDTH - RIGHT,
        data_low=repr(frame.low_x),
        data_high=repr(frame.high_x),
    )


def colours(series: Sequence[Series]) -> list[int]:
    """A colour for each series; a group shares one."""
    known: dict[str, int] = {}
    return [known.setdefault(s.group or s.name, len(known) % COLOURS) for s in series]


def _axes(frame: Frame) -> list[Markup]:
    choose = powers if frame.logarithmic else ticks
    parts = []
    heights = choose(frame.low_y, frame.high_y)
    heights = [value for value in heights if frame.low_y <= value <= frame.high_y]
    for value, text in zip(heights, labels(heights), strict=True):
        y = round(frame.y(value), 1)
        parts.append(closed("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        parts.append(tag("text", text, class_="tick", x=LEFT - 6, y=y + 4, text_anchor="end"))
    for value in ticks(frame.low_x, frame.high_x):
        if value != int(value):
            continue
        x, bottom = round(frame.x(value), 1), HEIGHT - BOTTOM
        parts.append(
            tag(
                "text",
                format_number(value),
                class_="tick",
                x=x,
                y=bottom + 16,
                text_anchor="middle",
            )
        )
    end = WIDTH - RIGHT
    parts.append(tag("text", "step", class_="tick", x=end, y=HEIGHT - 4, text_anchor="end"))
    return parts


def _levels(chart: Chart, frame: Frame) -> tuple[list[Markup], list[Markup]]:
    lines, names = [], []
    for level in chart.levels:
        if frame.is_drawable(level.y):
            y = round(frame.y(level.y), 1)
            lines.append(closed("line", class_="level", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
            text = f"{level.name} {format_number(level.y)}"
            x = WIDTH - RIGHT - 4
            names.append(tag("text", text, class_="level-name", x=x, y=y - 4, text_anchor="end"))
    return lines, names


def _curve(series: Series, frame: Frame, colour: int) -> Markup:
    kind = f"c{colour}" + (" faint" if series.faint else "")
    places = [
        (round(frame.x(x), 1), round(frame.y(y), 1)) if frame.is_drawable(y) else None
        for x, y in zip(series.xs, series.ys, strict=True)
    ]
    if series.dots:
        dots = [closed("circle", cx=p[0], cy=p[1], r=3.5) for p in places if p is not None]
        return tag("g", *dots, class_=f"dots {kind}")
    path, pen_down, alone = "", False, []
    for index, place in enumerate(places):
        if place is None:
            pen_down = False
            continue
        following = places[index + 1] if index + 1 < len(places) else None
        if not pen_down and following is None:
            # A value between two gaps would be invisible as a line.
            alone.append(closed("circle", cx=place[0], cy=place[1], r=2))
        path += f"{'L' if pen_down else 'M'}{place[0]:g} {place[1]:g}"
        pen_down = True
    line = closed("path", class_="curve", d=path) if path else Markup("")
    return tag("g", line, joined(alone), class_=kind)
