"""What all verbs share: the application, its groups, plain errors, and options from settings."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lossleuth import __version__
from lossleuth.settings import option_name, rules
from lossleuth.types.errors import BadInput

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter


class Group(StrEnum):
    """Headings of `lossleuth --help`, in the order in which they are shown."""

    DIAGNOSE = "Find out why a run does not learn"
    SAVED_RUNS = "Read a saved run"
    CAUSES = "Look up causes"
    TRAINER = "Train with the reference trainer"
    TOOLS = "Measure, set up, connect"
    DEVELOPMENT = "Work on lossleuth itself"


class GroupedVerbs(TyperGroup):
    """Lists the verbs under their headings, without loading rich."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write one section for each heading."""
        shown = {name: verb for name, verb in self.commands.items() if not verb.hidden}
        # Two spaces before a name, two after it, and two that the formatter keeps free.
        limit = formatter.width - 6 - max(map(len, shown))
        for group in Group:
            rows = [
                (name.ljust(max(map(len, shown))), verb.get_short_help_str(limit))
                for name, verb in shown.items()
                if getattr(verb, "rich_help_panel", None) == group
            ]
            with formatter.section(group.value):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=GroupedVerbs,
    help="Your loss won't go down. lossleuth runs your training script unchanged, finds out why, "
    "and proves it.\n\nStart with: lossleuth run train.py --its own --arguments",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# Options of every verb that trains.
TextFiles = Annotated[
    list[str] | None, typer.Argument(help="text files, same as --data", show_default=False)
]
Out = Annotated[
    Path | None, typer.Option(help="directory of the run [default: runs/<date>-<time>]")
]
Config = Annotated[Path | None, typer.Option(help="TOML file with settings")]
Resume = Annotated[
    Path | None, typer.Option(help="continue the run in this directory, bit for bit")
]
Overwrite = Annotated[bool, typer.Option(help="replace the run in that directory")]
StepLog = Annotated[bool, typer.Option(help="write record.jsonl, one line per step")]


def with_plain_errors(verb: Callable[..., None]) -> Callable[..., None]:
    """Turn a failure into one sentence on stderr and exit code 2.

    Only an error of our own also shows its traceback: whoever mends it needs that.
    """

    @functools.wraps(verb)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            verb(*args, **kwargs)
        except BadInput as refusal:
            _refuse(str(refusal))
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            _refuse("interrupted; everything saved so far is intact")
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(2) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _refuse(
                f"could not read or write {where}{error.strerror or error}; "
                "check the disk and the path"
            )
        except Exception as error:
            if _is_out_of_memory(error):
                _refuse("out of memory: use a smaller batch, model or --rows")
            traceback.print_exc()
            _refuse(f"internal error, a bug in lossleuth: {error!r}; the lines above say where")

    return guarded


def _is_out_of_memory(error: Exception) -> bool:
    """Whether Python, numpy or torch asked for more memory than there is; torch is not imported."""
    words = ("can't allocate memory", "not enough memory")
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and any(w in str(error) for w in words))
    )


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
