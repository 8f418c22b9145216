"""Verbs for those who work on lossleuth or set it up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lossleuth.cli.app import app, plainly


@app.command()
@plainly
def lab(
    host: Annotated[list[str] | None, typer.Option(help="only this host (repeat)")] = None,
    fault: Annotated[list[str] | None, typer.Option(help="only this fault (repeat)")] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="two faults at once")] = False,
    invented: Annotated[bool, typer.Option("--invented", help="faults of no cause")] = False,
    doses: Annotated[bool, typer.Option("--doses", help="how little is still proven")] = False,
    again: Annotated[bool, typer.Option("--again", help="also what is known")] = False,
    budget: Annotated[float, typer.Option(min=1, help="seconds per verdict")] = 120.0,
    out: Annotated[Path, typer.Option(help="folder of the results")] = Path("docs/lab"),
) -> None:
    """Plant known faults in healthy scripts and keep what is said of them."""
    from lossleuth.labs.lab.commands import run_lab

    chosen = {"pairs": pairs, "invented": invented, "doses": doses, "again": again}
    run_lab(out, host or [], fault or [], **chosen, budget=budget, show=typer.echo)


@app.command()
@plainly
def precision(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SOURCE]", help="run directory, checkpoint, or logits as .npy; none: generated"
        ),
    ] = None,
    case: Annotated[str | None, typer.Option(help="a founding case about precision: kahan")] = None,
    targets: Annotated[
        Path | None, typer.Option(help="targets as .npy; none: drawn from the logits")
    ] = None,
    vocabulary: Annotated[int, typer.Option(min=2, help="of generated logits")] = 1000,
    rows: Annotated[int, typer.Option(min=2, help="rows to look at, at most")] = 1000,
    dtype: Annotated[str, typer.Option(help="of differences: float32, float64 ...")] = "float32",
    seed: Annotated[int, typer.Option(min=0, help="of what is drawn")] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help="sums, formats, range or differences (repeat)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Measure what rounding and range do to a loss, its gradient and the update."""
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


@app.command()
@plainly
def doctor() -> None:
    """Print versions, threads, devices, kernels and whether runs can be written."""
    from lossleuth.doctor import findings

    for thing, found in findings(Path("runs")):
        typer.echo(f"{thing:<15} {found}")


@app.command()
@plainly
def mcp() -> None:
    """Serve coding assistants: run, examine, explain over the Model Context Protocol (stdio).

    Only scripts and runs under the present directory can be given.
    """
    from lossleuth.record.extras import load

    load("mcp", "mcp")
    from lossleuth.agents.server import serve

    serve(Path.cwd())
