"""Verbs that judge: a script, a saved run, a founding case."""

from __future__ import annotations

import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lossleuth import __version__
from lossleuth.cli.app import app, plainly

if TYPE_CHECKING:
    from lossleuth.judge.verdict import Verdict


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@plainly
def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="training script, unchanged")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="its own arguments")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="steps to observe at most")] = 200,
    budget: Annotated[float, typer.Option(min=1, help="seconds to take at most")] = 120.0,
    seeds: Annotated[int, typer.Option(min=1, help="paired runs per trial; 3 can prove")] = 3,
    out: Annotated[
        Path | None, typer.Option(help="run directory [default: runs/<date>-<time>]")
    ] = None,
    trials: Annotated[
        bool, typer.Option(help="run the script again with one thing changed")
    ] = True,
    only: Annotated[list[str] | None, typer.Option(help="judge only this cause (repeat)")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="print verdict.json; progress as JSON lines on stderr")
    ] = False,
) -> None:
    """Find out why a training script does not learn, and prove it."""
    if not json:
        typer.echo(f"lossleuth {__version__}: {script}", err=True)
    from lossleuth.examiner.commands import examine_script

    verdict, directory = examine_script(
        script,
        arguments or [],
        out=out,
        steps=steps,
        budget=budget,
        seeds=seeds,
        trials=trials,
        only=only or (),
        as_json=json,
    )
    _show(verdict, directory, as_json=json)


@app.command()
@plainly
def examine(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run directory")],
    json: Annotated[bool, typer.Option("--json", help="print verdict.json")] = False,
) -> None:
    """Judge a saved record again, without running anything."""
    from lossleuth.examiner.rejudge import rejudge

    _show(rejudge(run), run, as_json=json)


@app.command()
@plainly
def demo(
    case: Annotated[str, typer.Argument(metavar="[CASE]", help="a founding case")] = "rising_loss",
    out: Annotated[
        Path | None, typer.Option(help="run directory [default: runs/<date>-<time>]")
    ] = None,
) -> None:
    """Judge one of the five founding cases and tell its story."""
    from lossleuth.labs.cases.telling import tell

    tell(case, out, typer.echo)


@app.command()
@plainly
def causes(
    write: Annotated[
        Path | None, typer.Option(help="write their pages into this folder, as Markdown")
    ] = None,
) -> None:
    """List the causes that are known, with what each needs to be judged."""
    if write is not None:
        from lossleuth.report import cause_pages

        typer.echo(f"{len(cause_pages.write(write))} pages written to {write}")
        return
    from lossleuth.examiner.commands import listed

    for line in listed():
        typer.echo(line)


@app.command()
@plainly
def explain(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="id of a cause")],
) -> None:
    """Print the page of a cause."""
    from lossleuth.examiner.commands import explained

    typer.echo(explained(identifier))


def _show(verdict: Verdict, directory: Path, *, as_json: bool) -> typing.NoReturn:
    """Write the report, print the short form, and leave with the verdict's exit code."""
    from lossleuth.examiner.commands import as_json as json_of
    from lossleuth.report.render.terminal import is_coloured, lines
    from lossleuth.report.writing import write_reports

    written = write_reports(directory, verdict)
    if as_json:
        typer.echo(json_of(verdict))
    else:
        typer.echo("\n".join(lines(verdict, coloured=is_coloured(sys.stdout))))
        typer.echo(f"Report: {written[1]}", err=True)
    raise typer.Exit(verdict.exit_code)
