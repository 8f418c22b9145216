"""Verbs that measure, set up and connect; and the lab, for work on lossleuth itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lossleuth.cli.app import Group, app, with_plain_errors


@app.command(rich_help_panel=Group.DEVELOPMENT)
@with_plain_errors
def lab(
    host: Annotated[
        list[str] | None, typer.Option(help="only this host program (may be repeated)")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="only this fault (may be repeated)")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="two faults at once")] = False,
    invented: Annotated[
        bool, typer.Option("--invented", help="faults that no cause covers")
    ] = False,
    doses: Annotated[
        bool, typer.Option("--doses", help="find the smallest dose that is still proven")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="re-run cells that already have a result")
    ] = False,
    budget: Annotated[float, typer.Option(min=1, help="seconds per verdict")] = 120.0,
    jobs: Annotated[int, typer.Option(min=1, help="cells judged at the same time")] = 1,
    out: Annotated[Path, typer.Option(help="folder for the results")] = Path("docs/lab"),
) -> None:
    """Plant known faults in healthy scripts; record the verdicts."""
    from lossleuth.labs.lab.commands import run_lab

    chosen = {"pairs": pairs, "invented": invented, "doses": doses, "again": again}
    run_lab(out, host or [], fault or [], **chosen, budget=budget, show=typer.echo, jobs=jobs)


@app.command(rich_help_panel=Group.TOOLS)
@with_plain_errors
def precision(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE", help="run, checkpoint, or .npy file of logits [default: generated]"
        ),
    ] = None,
    case: Annotated[str | None, typer.Option(help="a founding case about precision: kahan")] = None,
    targets: Annotated[
        Path | None, typer.Option(help=".npy file of targets [default: sampled from the logits]")
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(min=2, help="vocabulary size of generated logits")
    ] = 1000,
    rows: Annotated[int, typer.Option(min=2, help="use at most this many rows")] = 1000,
    dtype: Annotated[
        str, typer.Option(help="type for finite differences: float32, float64 ...")
    ] = "float32",
    seed: Annotated[int, typer.Option(min=0, help="random seed")] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help="sums, formats, range or differences (may be repeated)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Measure what rounding does to loss, gradient and update."""
    from lossleuth.labs.precision.commands import run_precision

    run_precision(
        source,
        case=case,
        targets=targets,
        vocabulary=vocabulary,
        rows=rows,
        dtype=dtype,
        seed=seed,
        only=only or (),
        as_json=json,
        show=typer.echo,
    )


@app.command(rich_help_panel=Group.TOOLS)
@with_plain_errors
def doctor() -> None:
    """Show versions, devices and what is missing here."""
    from lossleuth.doctor import findings

    for name, finding in findings(Path("runs")):
        typer.echo(f"{name:<15} {finding}")


@app.command(rich_help_panel=Group.TOOLS)
@with_plain_errors
def mcp() -> None:
    """Serve coding assistants (Model Context Protocol, stdio).

    Only scripts and runs below the current directory can be given.
    """
    from lossleuth.record.extras import load

    load("mcp", "mcp")
    from lossleuth.agents.server import serve

    serve(Path.cwd())
