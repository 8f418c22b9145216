"""The range of a watched run, from its record: no logits are kept there, but sizes are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from lossleuth.record.read import Record
from lossleuth.report.document.headroom import (
    COLUMNS,
    NARROW,
    RecordedRange,
    largest_activations,
    ranges_of,
)
from lossleuth.report.document.matrix import matrix_of
from lossleuth.run_directory import RunDirectory
from lossleuth.types.errors import BadInput


def recorded_ranges(directory: Path) -> list[RecordedRange]:
    """The ranges of a record's tensors."""
    with Record.open(RunDirectory(directory).look) as record:
        columns = {c: matrix_of(record, c).values for c in COLUMNS if c in record.columns}
        events = [event.data for event in record.events("activations")]
    ranges = ranges_of(columns, largest_activations(events))
    if not ranges:
        raise BadInput(
            f"sizes of gradients or weights in the record of {directory}",
            "none of them",
            "give a run whose parameters were updated, or logits as .npy",
        )
    return ranges


def recorded_lines(directory: Path, ranges: Sequence[RecordedRange]) -> Iterator[str]:
    """The ranges as lines of text.

    >>> for line in recorded_lines(Path("run"), [RecordedRange("gradients", 2.0, 0.1, 1e-9)]):
    ...     print(line)
    Ranges in run; a record keeps sizes, no logits
      tensors              largest  loudest quietest  f16 bf16  quietest in float16
      gradients            2.0e+00  1.0e-01  1.0e-09   15  127  becomes 0
      f16, bf16: doublings to the format's largest number, by the largest known.
    """
    yield f"Ranges in {directory}; a record keeps sizes, no logits"
    yield f"  {'tensors':<20} largest  loudest quietest  f16 bf16  quietest in float16"
    for found in ranges:
        sizes = " ".join(_size(x) for x in (found.largest, found.loudest, found.quietest))
        rooms = " ".join(_room(found.room(name)) for name in NARROW)
        yield f"  {found.name:<20}{sizes} {rooms}  {found.lost('float16')}"
    yield "  f16, bf16: doublings to the format's largest number, by the largest known."


def _size(value: float) -> str:
    return f"{value:8.1e}" if math.isfinite(value) else f"{'-':>8}"


def _room(room: float) -> str:
    return f"{room:4.0f}" if math.isfinite(room) else f"{'-':>4}"
