"""A record as an offline run of Weights & Biases, which `wandb sync` can upload later."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from lossleuth.files import make_directory
from lossleuth.record import extras
from lossleuth.record.names import in_utf8
from lossleuth.record.read import Record
from lossleuth.record.wide import Wide
from lossleuth.types.errors import BadInput


def export_wandb(record: Record, target: Path) -> None:
    """Make the directory `target`, an offline run; nothing is sent anywhere.

    Weights & Biases wants rising steps, so its own step counts the rows, and the recorded step is
    the metric "step" against which the others are drawn.
    """
    wandb = extras.load("wandb", "wandb")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise BadInput("a directory that is empty or absent", str(target), "choose another target")
    # Made whole under another name, so that `target` is never half a run.
    making = target.with_name(f".{target.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    make_directory(making)
    try:
        _log(wandb, record, making)
        (made,) = (making / "wandb").glob("offline-run-*")
        made.replace(target)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _log(wandb: Any, record: Record, directory: Path) -> None:
    """Write the run; nothing of this machine or its user goes with it."""
    quiet = wandb.Settings(
        console="off",
        silent=True,
        disable_code=True,
        disable_git=True,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
    )
    run = wandb.init(
        mode="offline",
        dir=str(directory),
        project="lossleuth",
        name=record.path.parent.name,
        config={"header": record.header, "ended": record.ended},
        settings=quiet,
    )
    wide = Wide(record)
    labels = [in_utf8(label) for label in wide.labels]
    run.define_metric("*", step_metric="step")
    for row in wide.rows():
        cells = zip(labels, row, strict=True)
        run.log({label: cell for label, cell in cells if cell is not None})
    run.finish()
