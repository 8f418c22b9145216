"""A record as one Parquet table, written batch by batch."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from lossleuth.files import replace_path
from lossleuth.record import extras, strict_json
from lossleuth.record.names import in_utf8
from lossleuth.record.read import Record
from lossleuth.record.wide import Wide

_VALUES_IN_A_BATCH = 250_000
_INT64 = range(-(2**63), 2**63)
# From the narrowest; what fits none of them is written as JSON.
_KINDS = ("bool_", "int64", "float64", "string")


def export_parquet(record: Record, target: Path) -> None:
    """Write a row for each step; what a step does not have is null, which is not NaN.

    A scalar is a column of booleans, whole numbers, floats or strings if all its values are that
    exactly; else a column of strings that hold JSON.
    """
    arrow = extras.load("pyarrow", "parquet")
    parquet = extras.load("pyarrow.parquet", "parquet")
    wide = Wide(record)
    kinds = ["int64", *_scalar_kinds(record, wide.scalars), *["float64"] * len(wide.cells)]
    types = [getattr(arrow, "string" if kind == "json" else kind)() for kind in kinds]
    schema = arrow.schema(list(zip(map(in_utf8, wide.labels), types, strict=True)))
    rows = wide.rows()
    at_once = max(1, _VALUES_IN_A_BATCH // len(wide.labels))
    with replace_path(target) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        while batch := list(islice(rows, at_once)):
            arrays = [
                arrow.array([_value(kind, cell) for cell in cells], type=type_)
                for kind, type_, cells in zip(kinds, types, zip(*batch, strict=True), strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def kinds_of(value: Any) -> set[str]:
    """The kinds of column that hold a value exactly.

    >>> sorted(kinds_of(2)), sorted(kinds_of(2**53 + 1)), kinds_of([1])
    (['float64', 'int64'], ['int64'], set())
    """
    if isinstance(value, bool):
        return {"bool_"}
    if isinstance(value, float):
        return {"float64"}
    if isinstance(value, str):
        return {"string"}
    if isinstance(value, int) and value in _INT64:
        return {"int64", "float64"} if int(float(value)) == value else {"int64"}
    return set()


def _scalar_kinds(record: Record, names: list[str]) -> list[str]:
    """The narrowest kind of column that holds all values of each scalar."""
    fitting = {name: set(_KINDS) for name in names}
    for row in record.rows(matrices=False):
        for name in row.scalars.keys() & fitting.keys():
            if row.scalars[name] is not None:
                fitting[name] &= kinds_of(row.scalars[name])
    return [next((kind for kind in _KINDS if kind in fitting[name]), "json") for name in names]


def _value(kind: str, cell: Any) -> Any:
    if cell is None or kind not in ("json", "string"):
        return cell
    return in_utf8(cell if kind == "string" else strict_json.dumps(cell))
