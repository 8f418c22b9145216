"""What a report is made of: plain blocks, the same for every form that it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Paragraph:
    """Plain text. What matters most is `strong`."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Answer:
    """The one sentence that a reader takes away, with the verdict's status."""

    status: str
    text: str


@dataclass(frozen=True)
class Bullets:
    """Facts of equal weight, each with the name that it is about, if any."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Source:
    """Lines of the user's program, one of them marked."""

    place: str
    first: int
    lines: Sequence[str]
    marked: int


@dataclass(frozen=True)
class Diff:
    """A change of the user's source, line by line, each with its sign."""

    place: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows under a head."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Series:
    """A line or dots of a chart. What is not finite is a gap, never a bridge."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    dots: bool = False
    # Series of one group have one colour and one entry in the legend: paired runs, for example.
    group: str = ""
    # Drawn with less weight: the runs without the change.
    faint: bool = False


@dataclass(frozen=True)
class Level:
    """A height that means something, such as ln V."""

    name: str
    y: float


@dataclass(frozen=True)
class Chart:
    """Curves over steps, with what a reader who does not see them is told."""

    title: str
    told: str
    unit: str
    series: Sequence[Series]
    levels: Sequence[Level] = ()
    logarithmic: bool = False
    # How points were chosen where not all are shown.
    note: str = ""


@dataclass(frozen=True)
class HeatMap:
    """A number for each row and each step, on a logarithmic scale of colour."""

    title: str
    told: str
    unit: str
    rows: Sequence[str]
    steps: Sequence[int]
    # Row by row; what is not finite or not positive has no colour.
    values: Sequence[Sequence[float]]
    note: str = ""


@dataclass(frozen=True)
class Folded:
    """Blocks that a reader opens at will."""

    title: str
    blocks: Sequence[Block]
    # What a link inside the page calls it.
    anchor: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report under its heading."""

    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


Block = Paragraph | Answer | Bullets | Source | Diff | Table | Chart | HeatMap | Folded


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    sections: Sequence[Section]
