"""A record as an event file of TensorBoard."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from lossleuth.files import make_directory, replace_file
from lossleuth.record import extras
from lossleuth.record.names import in_utf8
from lossleuth.record.read import Record
from lossleuth.record.values import number
from lossleuth.record.wide import Wide

FILE_NAME = "events.out.tfevents.0.lossleuth"


def export_tensorboard(record: Record, target: Path) -> None:
    """Write every number of every step into an event file in the directory `target`.

    TensorBoard keeps numbers as float32, so they lose digits. Its clock is the scalar "time", in
    seconds, where a step has one.
    """
    events = extras.load("tensorboard.compat.proto.event_pb2", "tensorboard")
    summaries = extras.load("tensorboard.compat.proto.summary_pb2", "tensorboard")
    tensorboard = extras.load("tensorboard.summary.writer.record_writer", "tensorboard")
    wide = Wide(record)
    tags = [in_utf8(label) for label in wide.labels]
    clock = wide.labels.index("time") if "time" in wide.labels else None
    make_directory(target)
    with replace_file(target / FILE_NAME) as stream:
        writer = tensorboard.RecordWriter(stream)
        writer.write(events.Event(file_version="brain.Event:2").SerializeToString())
        for row in wide.rows():
            values = [
                summaries.Summary.Value(tag=tag, simple_value=number)
                for tag, number in zip(tags[1:], map(as_float32, row[1:]), strict=True)
                if number is not None
            ]
            event = events.Event(
                wall_time=_seconds(None if clock is None else row[clock]),
                step=row[0],
                summary=summaries.Summary(value=values),
            )
            writer.write(event.SerializeToString())


def as_float32(value: Any) -> float | None:
    """A number that fits float32, infinite beyond its range; None for what is no number.

    >>> as_float32(0.5), as_float32(-1e300), as_float32([1])
    (0.5, -inf, None)
    """
    found = number(value)
    if found is None or not math.isfinite(found) or abs(found) < 3.4028235677973366e38:
        return found
    return math.copysign(math.inf, found)


def _seconds(value: Any) -> float:
    found = number(value)
    return found if found is not None and math.isfinite(found) else 0.0
