"""The report's section on precision: what rounding does here, and how near the limits are."""

from __future__ import annotations

import math

from lossleuth.report.document.blocks import Block, Paragraph, Section, Table
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.headroom import NARROW, RecordedRange, ranges_of
from lossleuth.report.document.numbers import shown

MOST_OPERATIONS = 5


def precision(facts: Facts) -> Section | None:
    """Rounding figures and head-room, as far as the record has them; None where it has none."""
    columns = {name: matrix.values for name, matrix in facts.matrices.items()}
    ranges = ranges_of(columns, facts.largest_activations)
    blocks: list[Block] = [*_rounding(facts), *_head_room(ranges)]
    return Section("Precision", blocks) if blocks else None


def _rounding(facts: Facts) -> list[Block]:
    blocks: list[Block] = []
    if math.isfinite(facts.rounding):
        blocks.append(
            Paragraph(
                f"Rounding in the recorded types changes the gradient by "
                f"{shown(facts.rounding, 2)} of its size (the worst recorded step, against "
                "float64)."
            )
        )
    # The worst come first; of one line's the first stands for all.
    rows: dict[tuple[str, str, str], str] = {}
    for found in facts.operations:
        place = f"{found.file}:{found.line}" if found.file else ""
        what = found.name, found.dtype, place
        rows.setdefault(what, shown(found.error, 2))
    if rows:
        told = "Operations with the largest rounding error of their own"
        listed = [[*what, error] for what, error in rows.items()][:MOST_OPERATIONS]
        blocks.append(Table(told, ["operation", "type", "place", "own error"], listed))
    return blocks


def _head_room(ranges: list[RecordedRange]) -> list[Block]:
    rows = []
    for found in ranges:
        known = found.largest if math.isfinite(found.largest) else found.loudest
        told = shown(known, 2) if math.isfinite(found.largest) else f"about {shown(known, 2)}"
        rooms = [_doublings(found.room(name)) for name in NARROW]
        rows.append([found.name, told, *rooms, found.lost("float16")])
    if not rows:
        return []
    head = ["tensors", "largest", "doublings to float16's end", "bfloat16's", "quietest in float16"]
    return [Table("Head-room, from the sizes that were recorded", head, rows)]


def _doublings(room: float) -> str:
    return f"{room:.0f}" if math.isfinite(room) else "not known"
