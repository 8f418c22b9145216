"""The verb of the distiller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lossleuth.cli.app import app, plainly, settings_options
from lossleuth.distil.settings import DistilSettings


@app.command()
@settings_options(DistilSettings)
@plainly
def distil(
    files: Annotated[
        list[str] | None, typer.Argument(help="text files, as --data", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="run directory [default: runs/<date>-<time>]")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="continue the run in this directory, bit for bit")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="replace the run in the directory")] = False,
    record: Annotated[bool, typer.Option(help="write record.jsonl, a line per step")] = False,
    control: Annotated[
        bool, typer.Option(help="do it again with a shuffled teacher, and compare")
    ] = False,
    **options: Any,
) -> None:
    """Train a student to say what a teacher says, on text files."""
    options["data"] = [*(options["data"] or []), *(files or [])] or None
    from lossleuth.distil.commands import run_distillation

    run_distillation(
        options, out, config, resume, overwrite=overwrite, record=record, control=control
    )
