"""The record, as the observer writes it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import torch

from lossleuth.observe.steps.instances import Instances
from lossleuth.observe.steps.parameters.table import ParameterTable
from lossleuth.observe.steps.run_log import RunLog
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter


def test_threads_that_train_at_once_share_one_record() -> None:
    opened: list[Any] = []

    def open_slowly() -> Any:
        time.sleep(0.05)
        opened.append(object())
        return opened[-1]

    log = RunLog(open_slowly, ParameterTable())
    threads = [threading.Thread(target=lambda: log.writer) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1 and log.writer is opened[0]


def test_settings_are_written_once_and_name_the_optimizers_that_wait(tmp_path: Path) -> None:
    used, idle = (torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1) for _ in range(2))
    made, table = Instances(), ParameterTable()
    made.optimizers.update((used, idle))
    table.before_update(used)
    table.after_update(used)
    log = RunLog(lambda: RecordWriter.create(tmp_path / "run", {}, print), table)
    for _ in range(2):
        log.declare_parameters()
        log.declare_settings(made, 0)
    log.end({"how": "test"})
    with Record.open(tmp_path / "run") as record:
        (settings,) = record.events("settings")
        assert [o["class"] for o in settings.data["optimizers"]] == ["SGD"]
        assert settings.data["idle_optimizers"] == ["SGD"]
        assert len(record.parameter_names) == 1
        assert record.ended == {"how": "test"}
