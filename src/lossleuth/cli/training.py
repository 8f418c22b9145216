"""Verbs of the reference trainer."""

from __future__ import annotations

from pathlib import Path
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
from lossleuth.reference.train.settings import TrainSettings

Run = Annotated[Path, typer.Argument(metavar="RUN", help="run directory or checkpoint file")]


@app.command()
@settings_options(TrainSettings)
@plainly
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


@app.command()
@plainly
def evaluate(
    run: Run,
    files: Annotated[list[str] | None, typer.Argument(help="text files, as --data")] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="text files; none: the run's held-back documents")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print the true loss of a checkpoint: nats per token, perplexity, bits per byte."""
    from lossleuth.reference.train.commands import run_evaluation

    run_evaluation(run, [*(data or []), *(files or [])], as_json=json)


@app.command()
@plainly
def generate(
    run: Run,
    prompt: Annotated[str, typer.Option(help="text to continue")] = "",
    tokens: Annotated[int, typer.Option(help="tokens at most")] = 300,
    temperature: Annotated[float, typer.Option(help="0: always the likeliest token")] = 0.8,
    top_k: Annotated[int, typer.Option(help="draw from the k likeliest; 0: all")] = 0,
    top_p: Annotated[float, typer.Option(help="draw from the likeliest that sum to p")] = 1.0,
    seed: Annotated[int, typer.Option(help="seed of the draws")] = 0,
    cache: Annotated[bool, typer.Option(help="keep keys and values; same tokens, faster")] = True,
) -> None:
    """Let a trained model write."""
    from lossleuth.reference.train.commands import run_generation

    run_generation(run, prompt, tokens, temperature, top_k, top_p, seed, cached=cache)


@app.command(name="analyze-vocab")
@plainly
def analyze_vocab(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="text files")],
) -> None:
    """Print what a text holds: tokens per vocabulary size, unknown share, loss floors."""
    from lossleuth.reference.train.commands import run_vocabulary_analysis

    run_vocabulary_analysis(files)
