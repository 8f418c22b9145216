"""The verb of the distiller."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lossleuth.cli.app import (
    Config,
    Group,
    Out,
    Overwrite,
    Resume,
    StepLog,
    TextFiles,
    app,
    settings_options,
    with_plain_errors,
)
from lossleuth.reference.distil.settings import DistilSettings


@app.command(rich_help_panel=Group.TRAINER)
@settings_options(DistilSettings)
@with_plain_errors
def distil(
    files: TextFiles = None,
    out: Out = None,
    config: Config = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    record: StepLog = False,
    control: Annotated[
        bool, typer.Option(help="repeat with a shuffled teacher and compare")
    ] = False,
    **options: Any,
) -> None:
    """Distil a teacher into a smaller student, on text files."""
    options["data"] = [*(options["data"] or []), *(files or [])] or None
    from lossleuth.reference.distil.commands import run_distillation

    run_distillation(
        options, out, config, resume, overwrite=overwrite, record=record, control=control
    )
