"""Verbs of the reference trainer."""

from __future__ import annotations

from pathlib import Path
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
from lossleuth.reference.train.settings import TrainSettings

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="directory of the run, or checkpoint file")
]


@app.command(rich_help_panel=Group.TRAINER)
@settings_options(TrainSettings)
@with_plain_errors
def train(
    files: TextFiles = None,
    out: Out = None,
    config: Config = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    record: StepLog = False,
    **options: Any,
) -> None:
    """Train the reference transformer on text files."""
    options["data"] = [*(options["data"] or []), *(files or [])] or None
    from lossleuth.reference.train.commands import run_training

    run_training(options, out, config, resume, overwrite=overwrite, record=record)


@app.command(rich_help_panel=Group.TRAINER)
@with_plain_errors
def evaluate(
    run: Run,
    files: Annotated[list[str] | None, typer.Argument(help="text files, same as --data")] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="text files [default: the run's validation documents]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print the true loss of a checkpoint, in nats per token."""
    from lossleuth.reference.train.finished_run import run_evaluation

    run_evaluation(run, [*(data or []), *(files or [])], as_json=json)


@app.command(rich_help_panel=Group.TRAINER)
@with_plain_errors
def generate(
    run: Run,
    prompt: Annotated[str, typer.Option(help="text to continue")] = "",
    tokens: Annotated[int, typer.Option(help="generate at most this many tokens")] = 300,
    temperature: Annotated[
        float, typer.Option(help="sampling temperature; 0 takes the most likely token")
    ] = 0.8,
    top_k: Annotated[
        int, typer.Option(help="sample from the k most likely tokens; 0 means all")
    ] = 0,
    top_p: Annotated[
        float, typer.Option(help="sample from the most likely tokens that sum to p")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="random seed")] = 0,
    cache: Annotated[bool, typer.Option(help="cache keys and values: same tokens, faster")] = True,
) -> None:
    """Generate text with a trained model."""
    from lossleuth.reference.train.finished_run import run_generation

    run_generation(run, prompt, tokens, temperature, top_k, top_p, seed, cached=cache)


@app.command(name="analyze-vocab", rich_help_panel=Group.TRAINER)
@with_plain_errors
def analyze_vocab(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="text files")],
) -> None:
    """Print vocabulary sizes and entropies of text files."""
    from lossleuth.reference.train.commands import run_vocabulary_analysis

    run_vocabulary_analysis(files)
