"""A record in the formats of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lossleuth.record.export_csv import export_csv
from lossleuth.record.export_jsonl import export_jsonl
from lossleuth.record.export_parquet import export_parquet
from lossleuth.record.export_tensorboard import export_tensorboard
from lossleuth.record.export_wandb import export_wandb
from lossleuth.record.read import Record
from lossleuth.types.errors import BadInput

FORMATS: dict[str, Callable[[Record, Path], None]] = {
    "csv": export_csv,
    "jsonl": export_jsonl,
    "parquet": export_parquet,
    "tensorboard": export_tensorboard,
    "wandb": export_wandb,
}


def export(record: Record, format: str, target: Path) -> None:
    """Write a record to `target`: a file, or a directory for `tensorboard` and `wandb`.

    What stood at `target` is replaced once the whole is written, and stays if that fails.
    """
    if format not in FORMATS:
        raise BadInput("one of " + ", ".join(FORMATS), repr(format), "choose another format")
    try:
        FORMATS[format](record, Path(target))
    except OSError as error:
        raise BadInput(
            "room for the export", f"{target}: {error.strerror or error}", "choose another target"
        ) from None


def format_of(target: Path) -> str:
    """The format that a file's name asks for; a name without an ending asks for CSV.

    >>> format_of(Path("run.jsonl")), format_of(Path("table"))
    ('jsonl', 'csv')
    """
    ending = target.suffix.removeprefix(".").lower()
    if ending and ending not in FORMATS:
        raise BadInput(
            "a target that ends with one of ." + ", .".join(FORMATS),
            repr(target.name),
            "name another target, or give --format",
        )
    return ending or "csv"
