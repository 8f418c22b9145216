"""The blocks that a report is made of, the same for every output format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Paragraph:
    """Plain text; `strong` stands out."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Answer:
    """The result in one sentence, with the status of a verdict or a comparison."""

    status: str
    text: str

    @property
    def label(self) -> str:
        """The status as a word, such as `Cannot tell`."""
        return self.status.replace("_", " ").capitalize()


@dataclass(frozen=True)
class Bullets:
    """A list of facts, each with the name that it is about, if any."""

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
    """A change of the user's source: lines with their signs."""

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
    """A curve or dots of a chart. Non-finite values are gaps, never bridged."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    dots: bool = False
    # Series of one group share a colour and a legend entry, such as paired runs.
    group: str = ""
    # Drawn dashed: runs without the change.
    faint: bool = False


@dataclass(frozen=True)
class Level:
    """A horizontal reference line, such as ln V."""

    name: str
    y: float


@dataclass(frozen=True)
class Chart:
    """Curves over steps; the description is also the text for screen readers."""

    title: str
    description: str
    unit: str
    series: Sequence[Series]
    levels: Sequence[Level] = ()
    logarithmic: bool = False
    # How points were chosen if not all are shown.
    note: str = ""


@dataclass(frozen=True)
class HeatMap:
    """A number for each row and step, on a logarithmic colour scale."""

    title: str
    description: str
    unit: str
    rows: Sequence[str]
    steps: Sequence[int]
    # Row by row; values that are not finite or not positive have no colour.
    values: Sequence[Sequence[float]]
    note: str = ""


@dataclass(frozen=True)
class Folded:
    """Blocks that are collapsed at first."""

    title: str
    blocks: Sequence[Block]
    # Its id in the page, for links.
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
