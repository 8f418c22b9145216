"""The record of a run, as the observer writes it: steps, and what is not a step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from lossleuth.observe.steps.instances import Instances
from lossleuth.observe.steps.parameters.readings import READINGS
from lossleuth.observe.steps.parameters.table import Measured, ParameterTable
from lossleuth.observe.steps.settings import ChangedSettings, resolved_settings
from lossleuth.observe.steps.step import StepWindow
from lossleuth.observe.steps.step_writer import ClosedStep, ClosedSteps
from lossleuth.record.write import RecordWriter


class RunLog:
    """Opens the record when there is something to write, and keeps what is written in order."""

    def __init__(self, open_writer: Callable[[], RecordWriter], table: ParameterTable) -> None:
        self._open_writer = open_writer
        self._writer: RecordWriter | None = None
        self._opening = threading.RLock()
        self._table = table
        self._closed = ClosedSteps(lambda: self.writer, table)
        # Which version of the table the record knows.
        self._declared = 0
        self._changed = ChangedSettings()

    @property
    def writer(self) -> RecordWriter:
        """The record."""
        if self._writer is None:
            # Once, also where several threads train.
            with self._opening:
                self._writer = self._writer or self._open_writer()
        return self._writer

    def add(
        self, number: int, window: StepWindow, ended: float, own: float, measured: list[Measured]
    ) -> None:
        """Write a step that has ended, now or with the next ones."""
        self._closed.add(ClosedStep(number, window, ended, own, measured))

    def event(self, kind: str, data: dict[str, Any]) -> None:
        """Write something that is not a step, after the steps before it."""
        self._closed.write()
        self.writer.event(kind, data)

    def declare_parameters(self) -> None:
        """Name the parameters that are new since the last time."""
        if self._table.parameters.version != self._declared:
            self._declared, names, sizes = self._table.parameters.declared()
            # Those that ended before know nothing of the new ones.
            self._closed.write()
            self.writer.parameters(names, sizes, READINGS)
            self._closed.rows = len(names)

    def declare_settings(self, made: Instances, step: int) -> None:
        """Write the settings of optimizers and schedules, where they have changed."""
        optimizers = self._changed.optimizers(self._table, step)
        if optimizers is not None:
            settings = resolved_settings(
                optimizers, list(made.schedulers), made.places, self._table.trainees.number_of
            )
            settings["idle_optimizers"] = made.idle_besides(optimizers)
            self.event("settings", settings | {"torch_seed": torch.initial_seed()})

    def end(self, summary: dict[str, Any]) -> None:
        """The run is over."""
        self._closed.write()
        self.writer.end(summary)
