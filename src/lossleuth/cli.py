"""The command line. Imports torch only inside the verbs that need it."""

from __future__ import annotations

import functools
import inspect
import io
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lossleuth import __version__
from lossleuth.settings import option_name, rules
from lossleuth.train.settings import TrainSettings
from lossleuth.types import BadInput

app = typer.Typer(
    help="Your loss won't go down. lossleuth finds out why, and proves it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="run directory or checkpoint file")]


def main() -> None:
    """Entry point of the `lossleuth` command."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the output's encoding lacks is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()


def _plainly(verb: Callable[..., None]) -> Callable[..., None]:
    """Turn what cannot be carried out into one sentence on stderr and exit code 2."""

    @functools.wraps(verb)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            verb(*args, **kwargs)
        except BadInput as refusal:
            _refuse(str(refusal))
        except KeyboardInterrupt:
            _refuse("expected to finish, found Ctrl-C: what was saved before is whole")
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(2) from None
        except MemoryError:
            _refuse("expected to fit into memory, found too little of it: give or ask for less")
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _refuse(
                f"expected to read and write files, found {where}{error.strerror or error}: "
                "check the disk and the path"
            )

    return guarded


def _refuse(sentence: str) -> typing.NoReturn:
    typer.echo(f"lossleuth: {sentence}", err=True)
    raise typer.Exit(2)


def _settings_options(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb one option per setting, all None where not given, as keyword arguments."""

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = [
            p
            for p in inspect.signature(verb, eval_str=True).parameters.values()
            if p.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        hints = typing.get_type_hints(kind)
        added = []
        for name, rule in rules(kind).items():
            default = getattr(kind, name)
            limits = f" ({', '.join(rule.choices)})" if rule.choices else ""
            shown = "" if default in (None, ()) else f" [default: {default}]"
            flag = option_name(name)
            if hints[name] is bool:
                flag = f"{flag}/--no-{flag[2:]}"
            option = typer.Option(flag, help=f"{rule.help}{limits}{shown}", show_default=False)
            added.append(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=None,
                    annotation=_annotation(hints[name], option),
                )
            )
        verb.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]  # read by typer
        return verb

    return decorate


def _annotation(hint: Any, option: Any) -> Any:
    if typing.get_origin(hint) is tuple:
        hint = list[str]
    kind = hint if isinstance(hint, types.UnionType) else hint | None
    return Annotated[kind, option]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
@_settings_options(TrainSettings)
@_plainly
def train(
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
    **options: Any,
) -> None:
    """Train the reference transformer on text files."""
    if files or options["data"]:
        options["data"] = [*(options["data"] or []), *(files or [])]
    else:
        options["data"] = None
    from lossleuth.train.commands import run_training

    run_training(options, out, config, resume, overwrite=overwrite, record=record)


@app.command()
@_plainly
def evaluate(
    run: Run,
    files: Annotated[list[str] | None, typer.Argument(help="text files, as --data")] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="text files; none: the run's held-back documents")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print the true loss of a checkpoint: nats per token, perplexity, bits per byte."""
    from lossleuth.train.commands import run_evaluation

    run_evaluation(run, [*(data or []), *(files or [])], as_json=json)


@app.command()
@_plainly
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
    from lossleuth.train.commands import run_generation

    run_generation(run, prompt, tokens, temperature, top_k, top_p, seed, cached=cache)


@app.command(name="analyze-vocab")
@_plainly
def analyze_vocab(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="text files")],
) -> None:
    """Print what a text holds: tokens per vocabulary size, unknown share, loss floors."""
    from lossleuth.train.commands import run_vocabulary_analysis

    run_vocabulary_analysis(files)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_plainly
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
    from lossleuth.observe.watching import watch_script

    watch_script(script, arguments or [], out, activations=activations, tape=tape or ())


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_plainly
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
    json: Annotated[bool, typer.Option("--json", help="print verdict.json")] = False,
) -> None:
    """Find out why a training script does not learn, and prove it."""
    typer.echo(f"lossleuth {__version__}: {script}", err=True)
    from lossleuth.examiner.commands import as_json, examine_script
    from lossleuth.report.terminal import lines

    verdict, directory = examine_script(
        script,
        arguments or [],
        out=out,
        steps=steps,
        budget=budget,
        seeds=seeds,
        trials=trials,
        only=only or (),
    )
    typer.echo(as_json(verdict) if json else "\n".join(lines(verdict)))
    typer.echo(f"written to {directory}", err=True)
    raise typer.Exit(verdict.exit_code)


@app.command()
@_plainly
def examine(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run directory")],
    json: Annotated[bool, typer.Option("--json", help="print verdict.json")] = False,
) -> None:
    """Judge a saved record again, without running anything."""
    from lossleuth.examiner.commands import as_json, examine_record
    from lossleuth.report.terminal import lines

    verdict = examine_record(run)
    typer.echo(as_json(verdict) if json else "\n".join(lines(verdict)))
    raise typer.Exit(verdict.exit_code)


@app.command()
@_plainly
def demo(
    case: Annotated[str, typer.Argument(metavar="[CASE]", help="a founding case")] = "rising_loss",
    out: Annotated[
        Path | None, typer.Option(help="run directory [default: runs/<date>-<time>]")
    ] = None,
) -> None:
    """Judge one of the five founding cases and tell its story."""
    from lossleuth.cases.telling import tell

    tell(case, out, typer.echo)


@app.command()
@_plainly
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
    from lossleuth.lab.commands import run_lab

    chosen = {"pairs": pairs, "invented": invented, "doses": doses, "again": again}
    run_lab(out, host or [], fault or [], **chosen, budget=budget, show=typer.echo)


@app.command()
@_plainly
def causes() -> None:
    """List the causes that are known, with what each needs to be judged."""
    from lossleuth.examiner.commands import listed

    for line in listed():
        typer.echo(line)


@app.command()
@_plainly
def explain(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="id of a cause")],
) -> None:
    """Print the page of a cause."""
    from lossleuth.examiner.commands import explained

    typer.echo(explained(identifier))


@app.command()
@_plainly
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run directory")],
    to: Annotated[Path, typer.Argument(metavar="TARGET", help="file or folder to write")],
    format: Annotated[str, typer.Option(help="csv, jsonl, parquet, tensorboard or wandb")] = "csv",
) -> None:
    """Write a record as a table that other programs read."""
    from lossleuth.record.export import export as write
    from lossleuth.record.read import Record

    write(Record.open(run), format, to)
    typer.echo(f"{to} written")


@app.command()
@_plainly
def doctor() -> None:
    """Print versions, threads, devices, kernels and whether runs can be written."""
    from lossleuth.doctor import findings

    for thing, found in findings(Path("runs")):
        typer.echo(f"{thing:<15} {found}")
