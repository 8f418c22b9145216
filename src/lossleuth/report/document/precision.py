"""The report's section on precision: rounding errors, and headroom before overflow."""

from __future__ import annotations

import math

from lossleuth.report.document.blocks import Block, Paragraph, Section, Table
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.headroom import NARROW, RecordedRange, ranges_of
from lossleuth.report.document.numbers import format_number

MAX_OPERATIONS = 5


def precision(facts: Facts) -> Section | None:
    """Rounding errors and headroom, if the record has any."""
    columns = {name: matrix.values for name, matrix in facts.matrices.items()}
    ranges = ranges_of(columns, facts.largest_activations)
    blocks: list[Block] = [*_rounding(facts), *_headroom(ranges)]
    return Section("Precision", blocks) if blocks else None


def _rounding(facts: Facts) -> list[Block]:
    blocks: list[Block] = []
    error = facts.rounding.gradient_error
    if math.isfinite(error):
        sentence = (
            f"Relative rounding error of the gradient: {format_number(error, 2)} (worst recorded "
            "step, compared with float64)."
        )
        blocks.append(Paragraph(sentence))
    # The largest errors come first; each line is listed once.
    rows: dict[tuple[str, str, str], str] = {}
    for operation in facts.rounding.operations:
        place = f"{operation.file}:{operation.line}" if operation.file else ""
        key = operation.name, operation.dtype, place
        rows.setdefault(key, format_number(operation.error, 2))
    if rows:
        title = "Operations with the largest rounding errors"
        listed = [[*key, error] for key, error in rows.items()][:MAX_OPERATIONS]
        blocks.append(Table(title, ["operation", "dtype", "line", "relative error"], listed))
    return blocks


def _headroom(ranges: list[RecordedRange]) -> list[Block]:
    rows = []
    for recorded in ranges:
        is_exact = math.isfinite(recorded.largest)
        size = format_number(recorded.largest if is_exact else recorded.loudest, 2)
        doublings = [_doublings(recorded.room(name)) for name in NARROW]
        largest = size if is_exact else f"about {size}"
        rows.append([recorded.name, largest, *doublings, recorded.lost("float16")])
    if not rows:
        return []
    overflow = [f"doublings until {name} overflows" for name in NARROW]
    head = ["tensors", "largest value", *overflow, "smallest RMS in float16"]
    return [Table("Headroom", head, rows)]


def _doublings(room: float) -> str:
    return f"{room:.0f}" if math.isfinite(room) else "unknown"
