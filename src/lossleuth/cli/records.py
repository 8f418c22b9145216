"""Verbs of records: making them, reading them, comparing them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lossleuth.cli.app import app, plainly


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@plainly
def watch(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="training script, unchanged")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="its own arguments")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="run directory [default: runs/<date>-<time>]")
    ] = None,
    activations: Annotated[
        bool, typer.Option("--activations", help="also record every module's output (slower)")
    ] = False,
    tape: Annotated[
        list[int] | None,
        typer.Option(min=0, help="replay this step in float64 and compare (may be repeated)"),
    ] = None,
) -> None:
    """Run a training script unchanged to its end and record every step."""
    from lossleuth.watching.command import watch_script

    watch_script(
        script,
        arguments or [],
        out,
        activations=activations,
        tape=tape or (),
        finished=_write_report,
    )


def _write_report(directory: Path) -> None:
    """Judge what was watched; whatever goes wrong here is no matter of the script's."""
    try:
        from lossleuth.report.writing import judge_and_report

        written = judge_and_report(directory)
        typer.echo(f"lossleuth: {written[1]} written (judged without trials)", err=True)
    except Exception as error:
        typer.echo(f"lossleuth: no report was written: {error!r}", err=True)


@app.command()
@plainly
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run directory")],
    format: Annotated[str, typer.Option(help="html, md, json or csv")] = "html",
    out: Annotated[Path | None, typer.Option(help="file to write [default: in RUN]")] = None,
) -> None:
    """Make the report of a saved run again, without running anything."""
    from lossleuth.report.writing import write_report

    typer.echo(f"{write_report(run, format, out)} written")


@app.command()
@plainly
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="run directory")],
    second: Annotated[Path, typer.Argument(metavar="RUN", help="another one")],
    out: Annotated[Path | None, typer.Option(help="also write this HTML file")] = None,
) -> None:
    """Put two runs side by side: what differs, and the first step at which they part."""
    from lossleuth.report.document.compare import comparison
    from lossleuth.report.writing import write_comparison

    document = comparison(first, second)
    typer.echo(write_comparison(document, out))


@app.command()
@plainly
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run directory")],
    to: Annotated[Path, typer.Argument(metavar="TARGET", help="file or folder to write")],
    format: Annotated[
        str | None,
        typer.Option(help="csv, jsonl, parquet, tensorboard or wandb; else as TARGET ends, or csv"),
    ] = None,
) -> None:
    """Write a record as a table that other programs read."""
    from lossleuth.record.export import export as write
    from lossleuth.record.export import format_of
    from lossleuth.record.read import Record

    write(Record.open(run), format or format_of(to), to)
    typer.echo(f"{to} written")
