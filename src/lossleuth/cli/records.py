"""Verbs that make, read and compare records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lossleuth.cli.app import Group, Out, app, with_plain_errors


@app.command(
    rich_help_panel=Group.DIAGNOSE,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@with_plain_errors
def watch(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="your training script")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="its own arguments")
    ] = None,
    out: Out = None,
    activations: Annotated[
        bool, typer.Option("--activations", help="also record every module's output (slower)")
    ] = False,
    tape: Annotated[
        list[int] | None,
        typer.Option(min=0, help="replay this step in float64 and compare (may be repeated)"),
    ] = None,
) -> None:
    """Run a script to its end and record every step."""
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
    """Judge the run that was watched. A failure here must not change the script's exit code."""
    try:
        from lossleuth.report.writing import judge_and_report

        written = judge_and_report(directory)
        typer.echo(f"lossleuth: {written[1]} written (judged without trials)", err=True)
    except Exception as error:
        typer.echo(f"lossleuth: no report was written (internal error: {error!r})", err=True)


@app.command(rich_help_panel=Group.SAVED_RUNS)
@with_plain_errors
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="directory of the run")],
    format: Annotated[str, typer.Option(help="html, md, json or csv")] = "html",
    out: Annotated[Path | None, typer.Option(help="file to write [default: in RUN]")] = None,
) -> None:
    """Write the report of a saved run again."""
    from lossleuth.report.writing import write_report

    typer.echo(f"{write_report(run, format, out)} written")


@app.command(rich_help_panel=Group.SAVED_RUNS)
@with_plain_errors
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="directory of the run")],
    second: Annotated[Path, typer.Argument(metavar="RUN", help="directory of the other run")],
    out: Annotated[Path | None, typer.Option(help="also write this HTML file")] = None,
) -> None:
    """Compare two runs: what differs, and from which step on."""
    from lossleuth.report.document.compare import comparison
    from lossleuth.report.writing import write_comparison

    document = comparison(first, second)
    typer.echo(write_comparison(document, out))


@app.command(rich_help_panel=Group.SAVED_RUNS)
@with_plain_errors
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="directory of the run")],
    to: Annotated[Path, typer.Argument(metavar="TARGET", help="file or folder to write")],
    format: Annotated[
        str | None,
        typer.Option(
            help="csv, jsonl, parquet, tensorboard or wandb [default: by the ending of TARGET]"
        ),
    ] = None,
) -> None:
    """Write a record as CSV, JSON lines, Parquet and others."""
    from lossleuth.record.export import export as write
    from lossleuth.record.export import format_of
    from lossleuth.record.read import Record

    write(Record.open(run), format or format_of(to), to)
    typer.echo(f"{to} written")
