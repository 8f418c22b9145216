"""The verb of the distiller."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lossleuth.cli.app import (
    Config,
    Out,
    Overwrite,
    Resume,
    StepLog,
    TextFiles,
    app,
    plainly,
    settings_options,
)
from lossleuth.reference.distil.settings import DistilSettings


@app.command()
@settings_options(DistilSettings)
@plainly
def distil(
    files: TextFiles = None,
    out: Out = None,
    config: Config = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    record: StepLog = False,
    control: Annotated[
        bool, typer.Option(help="do it again with a shuffled teacher, and compare")
    ] = False,
    **options: Any,
) -> None:
    """Train a student to say what a teacher says, on text files."""
    options["data"] = [*(options["data"] or []), *(files or [])] or None
    from lossleuth.reference.distil.commands import run_distillation

    run_distillation(
        options, out, config, resume, overwrite=overwrite, record=record, control=control
    )
