"""A record as a table for spreadsheets."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from lossleuth.files import replace_path
from lossleuth.record import strict_json
from lossleuth.record.read import Record
from lossleuth.record.wide import Wide

# A spreadsheet takes a cell that begins so for a formula, the full-width forms included; where
# semicolons separate, it takes what follows one for a cell.
_FORMULA = re.compile(
    r"(?:^|(?<=[;\t\r\n]))(?=\s*[=+\-@＝＋－＠])|^(?=[\t\r\n])"  # noqa: RUF001 - look-alikes
)


def export_csv(record: Record, target: Path) -> None:
    """Write a row for each step; numbers keep all their digits, every string is quoted."""
    wide = Wide(record)
    with (
        replace_path(target) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream,
    ):
        writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(map(inert, wide.labels))
        for row in wide.rows():
            writer.writerow(map(_cell, row))


def inert(text: str) -> str:
    """The text, with an apostrophe before what a spreadsheet might run.

    >>> inert("=cmd()"), inert("a;=cmd()"), inert("loss-1")
    ("'=cmd()", "a;'=cmd()", 'loss-1')
    """
    return _FORMULA.sub("'", text)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return value
    return inert(value if isinstance(value, str) else strict_json.dumps(value))
