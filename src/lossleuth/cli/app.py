"""What all verbs share: the application, plain refusals, and options made of settings."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lossleuth import __version__
from lossleuth.settings import option_name, rules
from lossleuth.types.errors import BadInput

app = typer.Typer(
    help="Your loss won't go down. lossleuth finds out why, and proves it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# Options of every verb that trains.
TextFiles = Annotated[
    list[str] | None, typer.Argument(help="text files, as --data", show_default=False)
]
Out = Annotated[Path | None, typer.Option(help="run directory [default: runs/<date>-<time>]")]
Config = Annotated[Path | None, typer.Option(help="TOML file with settings")]
Resume = Annotated[
    Path | None, typer.Option(help="continue the run in this directory, bit for bit")
]
Overwrite = Annotated[bool, typer.Option(help="replace the run in the directory")]
StepLog = Annotated[bool, typer.Option(help="write record.jsonl, a line per step")]


def plainly(verb: Callable[..., None]) -> Callable[..., None]:
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


def settings_options(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
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
