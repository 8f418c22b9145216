"""Reading a record, also while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossleuth.record import values
from lossleuth.record.frames import Kind
from lossleuth.record.log import Log, Other, event_parts
from lossleuth.record.names import refuse_unknown
from lossleuth.record.payloads import Table
from lossleuth.record.scalars import Scalars, decoded

_CELL = Struct("<d")


@dataclass(frozen=True)
class Row:
    """One step as it was written."""

    step: int
    scalars: dict[str, Any]
    table: Table | None
    matrix: NDArray[np.float64] | None


@dataclass(frozen=True)
class Event:
    """Something that happened, and how many steps had been recorded before it."""

    kind: str
    data: dict[str, Any]
    steps_before: int


class Record:
    """What a run recorded, as of the last `refresh`. For one thread at a time.

    Step numbers stand as they were written: they may repeat or fall.

    >>> import tempfile
    >>> from lossleuth.record.write import RecordWriter
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> writer = RecordWriter.create(folder, {"script": "train.py"}, warn=print)
    >>> writer.parameters(["wte", "head"], [64, 64], ["norm"])
    >>> writer.step({"step": 0, "loss": 6.9}, np.array([[1.0], [2.0]]))
    >>> record = Record.open(folder)
    >>> record.state, record.steps, record.series("loss"), record.parameter_series("head", "norm")
    ('running', array([0]), array([6.9]), array([2.]))
    >>> writer.end({"exit": 0})
    >>> record.refresh()
    >>> record.state, record.ended
    ('ended', {'exit': 0})
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._scalars = Scalars(log)

    @classmethod
    def open(cls, path: Path | str) -> Record:
        """Open a run directory or its log; BadInput if it is no record that can be read."""
        return cls(Log(Path(path)))

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # At the end of the process what it needs may be gone already.
        if suppress is not None:
            with suppress(AttributeError, TypeError):
                self.close()

    def __len__(self) -> int:
        return len(self._log.steps)

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def refresh(self) -> None:
        """Read what was appended since."""
        self._log.refresh()

    @property
    def path(self) -> Path:
        """The log itself."""
        return self._log.path

    @property
    def header(self) -> dict[str, Any]:
        """The header: what the run wrote about itself at its start."""
        return self._log.header

    @property
    def ended(self) -> dict[str, Any] | None:
        """Why the run ended; None if unknown."""
        return self._log.ended

    @property
    def problem(self) -> str | None:
        """What is wrong with the log, in a sentence. Everything before that is intact."""
        return self._log.problem

    @property
    def state(self) -> str:
        """ "running", "ended", or "ended abnormally at step N"."""
        if self._log.ended is not None:
            return "ended"
        if self._log.held:
            return "running"
        if not self._log.steps:
            return "ended abnormally before the first step"
        return f"ended abnormally at step {self._log.steps[-1]}"

    @property
    def steps(self) -> NDArray[np.int64]:
        """The step numbers, in the order in which they were written."""
        return np.array(self._log.steps, dtype=np.int64)

    @property
    def scalar_names(self) -> list[str]:
        """The names of all scalars but the step number, in the order of appearance."""
        return [name for name in self._scalars.names() if name != "step"]

    def series(self, name: str) -> NDArray[np.float64]:
        """A scalar for each step, as float64; NaN where it is absent or no number."""
        return self._scalars.series(name)

    def values(self, name: str) -> list[Any]:
        """A scalar for each step, exactly as it was recorded; None where it is absent."""
        refuse_unknown("scalar", name, self._scalars.names())
        found = (decoded(self._log, index).get(name) for index in range(len(self)))
        return [values.restore(value) for value in found]

    @property
    def tables(self) -> list[Table]:
        """The declarations of parameters, in order; the last is in force."""
        return list(self._log.tables)

    @property
    def parameter_names(self) -> list[str]:
        """All parameters that were ever declared, in the order of appearance."""
        return list(dict.fromkeys(name for table in self._log.tables for name in table.names))

    @property
    def parameter_sizes(self) -> dict[str, int]:
        """The number of elements of each parameter, by its last declaration."""
        pairs = [pair for t in self._log.tables for pair in zip(t.names, t.sizes, strict=True)]
        return dict(pairs)

    @property
    def columns(self) -> list[str]:
        """All columns that were ever declared, in the order of appearance."""
        return list(dict.fromkeys(name for table in self._log.tables for name in table.columns))

    def parameter_series(self, parameter: str, column: str) -> NDArray[np.float64]:
        """One cell of the matrix for each step; NaN where the step does not have it."""
        refuse_unknown("parameter", parameter, self.parameter_names)
        refuse_unknown("column", column, self.columns)
        found = np.full(len(self), np.nan)
        offsets = {id(table): _offset(table, parameter, column) for table in self._log.tables}
        for index in range(len(self)):
            table = self._log.table_of(index)
            offset = None if table is None else offsets[id(table)]
            if offset is not None:
                cell = self._log.read(self._log.matrix_at(index) + offset, _CELL.size)
                found[index] = _CELL.unpack(cell)[0]
        return found

    def matrix(self, column: str, which: slice = slice(None)) -> NDArray[np.float64]:
        """A column for the chosen steps: a row for each step, a column for each parameter.

        The parameters are those of `parameter_names`; NaN where a step does not have one.
        """
        refuse_unknown("column", column, self.columns)
        places = {name: place for place, name in enumerate(self.parameter_names)}
        chosen = range(len(self))[which]
        found = np.full((len(chosen), len(places)), np.nan)
        where = {
            id(table): (table.columns.index(column), [places[name] for name in table.names])
            for table in self._log.tables
            if column in table.columns
        }
        for row, index in enumerate(chosen):
            table = self._log.table_of(index)
            if table is not None and id(table) in where:
                taken, into = where[id(table)]
                found[row, into] = self._matrix(index, table)[:, taken]
        return found

    def rows(self, which: slice = slice(None), *, matrices: bool = True) -> Iterator[Row]:
        """The chosen steps one after the other, whole or without their matrices."""
        for index in range(len(self))[which]:
            table = self._log.table_of(index) if matrices else None
            yield Row(
                self._log.steps[index],
                values.restore(decoded(self._log, index)),
                table,
                None if table is None else self._matrix(index, table),
            )

    def events(self, kind: str | None = None) -> list[Event]:
        """What happened, in order; of one kind if it is given."""
        found = (self._event(other) for other in self._log.others if other.kind is Kind.EVENT)
        return [event for event in found if kind is None or event.kind == kind]

    def entries(self) -> Iterator[Row | Event | Table]:
        """Steps, events and declarations of parameters, in the order of the log."""
        tables = iter(self._log.tables)
        at = 0
        for other in self._log.others:
            yield from self.rows(slice(at, other.steps_before))
            at = other.steps_before
            if other.kind is Kind.PARAMETERS:
                yield next(tables)
            elif other.kind is Kind.EVENT:
                yield self._event(other)
        yield from self.rows(slice(at, None))

    def _event(self, other: Other) -> Event:
        kind, data = event_parts(self._log.read(other.payload, other.length))
        return Event(kind, data, other.steps_before)

    def _matrix(self, index: int, table: Table) -> NDArray[np.float64]:
        data = self._log.read(self._log.matrix_at(index), table.matrix_bytes)
        cells = np.frombuffer(data, dtype="<f8").astype(np.float64, copy=False)
        return cells.reshape(len(table.names), len(table.columns))


def _offset(table: Table, parameter: str, column: str) -> int | None:
    """Where a cell stands in a matrix, in bytes."""
    if parameter not in table.names or column not in table.columns:
        return None
    row, place = table.names.index(parameter), table.columns.index(column)
    return _CELL.size * (row * len(table.columns) + place)
