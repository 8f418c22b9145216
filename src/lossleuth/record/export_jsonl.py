"""A record as lines of strict JSON: all that the log holds, in its order.

The lines are, by their "kind": `header`, `parameters`, `step`, `event`, `end`. A non-finite
number is the string "NaN", "Infinity" or "-Infinity".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lossleuth.files import replace_file
from lossleuth.record.payloads import Table
from lossleuth.record.read import Event, Record
from lossleuth.record.values import encode_json


def export_jsonl(record: Record, target: Path) -> None:
    """Write one line for each entry of the log."""
    with replace_file(target) as stream:
        for line in _lines(record):
            stream.write(encode_json(line)[0] + b"\n")


def _lines(record: Record) -> Iterator[dict[str, Any]]:
    yield {"kind": "header", "data": record.header}
    for entry in record.entries():
        if isinstance(entry, Table):
            names, sizes, columns = entry.names, entry.sizes, entry.columns
            yield {"kind": "parameters", "names": names, "sizes": sizes, "columns": columns}
        elif isinstance(entry, Event):
            yield {"kind": "event", "event": entry.kind, "data": entry.data}
        else:
            matrix = None if entry.matrix is None else entry.matrix.tolist()
            yield {"kind": "step", "step": entry.step, "scalars": entry.scalars, "matrix": matrix}
    if record.ended is not None:
        yield {"kind": "end", "data": record.ended}
