"""Verbs that judge: a script, a saved run, a founding case; and what they can find."""

from __future__ import annotations

import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lossleuth import __version__
from lossleuth.cli.app import Group, Out, app, with_plain_errors

if TYPE_CHECKING:
    from lossleuth.judge.verdict import Verdict


@app.command(
    rich_help_panel=Group.DIAGNOSE,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@with_plain_errors
def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="your training script")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="its own arguments")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="observe at most this many steps",
            show_default="to the script's own end, or 40 % of the budget",
        ),
    ] = None,
    budget: Annotated[float, typer.Option(min=1, help="time budget in seconds")] = 120.0,
    seeds: Annotated[
        int, typer.Option(min=1, help="paired runs per trial (at least 3 are needed for a proof)")
    ] = 3,
    out: Out = None,
    trials: Annotated[
        bool, typer.Option(help="run the script again with one thing changed, to prove a cause")
    ] = True,
    only: Annotated[
        list[str] | None, typer.Option(help="judge only this cause (may be repeated)")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="print verdict.json; progress as JSON lines on stderr")
    ] = False,
) -> None:
    """Find out why a training script does not learn; prove it.

    Exit code 1: a cause is proven or suspected. 0: healthy, or cannot tell. 2: nothing to judge.
    """
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


@app.command("examine", hidden=True)
@app.command(rich_help_panel=Group.SAVED_RUNS)
@with_plain_errors
def rejudge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="directory of the run")],
    json: Annotated[bool, typer.Option("--json", help="print verdict.json")] = False,
) -> None:
    """Judge a saved run again, without running anything."""
    from lossleuth.examiner.rejudge import rejudge as judge_again

    _show(judge_again(run), run, as_json=json)


@app.command(rich_help_panel=Group.DIAGNOSE)
@with_plain_errors
def demo(
    case: Annotated[
        str, typer.Argument(metavar="CASE", help="name of a founding case")
    ] = "rising_loss",
    out: Out = None,
) -> None:
    """Run it on a failed training that fooled its authors."""
    from lossleuth.labs.cases.demo import run_demo

    run_demo(case, out, typer.echo)


@app.command(rich_help_panel=Group.CAUSES)
@with_plain_errors
def causes(
    write: Annotated[
        Path | None, typer.Option(help="write their pages into this folder as Markdown")
    ] = None,
) -> None:
    """List all causes that lossleuth can find."""
    if write is not None:
        from lossleuth.report import cause_pages

        typer.echo(f"{len(cause_pages.write(write))} pages written to {write}")
        return
    from lossleuth.examiner.commands import listed

    for line in listed():
        typer.echo(line)


@app.command(rich_help_panel=Group.CAUSES)
@with_plain_errors
def explain(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="id of a cause")],
) -> None:
    """Explain a cause: how it is judged, how to fix it."""
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
