"""Writes the reference of the commands and of the Python API from the code itself.

`python docs/reference.py` writes both pages; `make docs` does it first. A test says when they are
stale.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import typer.main

import lossleuth
from lossleuth import kernels
from lossleuth.cli import app
from lossleuth.cli.app import Group

FOLDER = Path(__file__).parent / "reference"
MARK = "<!-- Made by `python docs/reference.py`; edit help texts and docstrings instead. -->"


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    return {"cli.md": commands_page(), "python.md": python_page()}


def stale(folder: Path = FOLDER) -> list[str]:
    """Pages that are missing or no longer what the code says."""
    return [
        name
        for name, text in pages().items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]


def commands_page() -> str:
    """All commands by group, with their arguments and options."""
    verbs = typer.main.get_group(app).commands
    out = [MARK, "# Commands", "The same as `lossleuth COMMAND --help`."]
    for group in Group:
        out.append(f"## {group.value}")
        for name, verb in verbs.items():
            if getattr(verb, "rich_help_panel", None) == group and not verb.hidden:
                out += _command(name, verb)
    return "\n\n".join(out) + "\n"


def _command(name: str, verb: Any) -> list[str]:
    arguments = [p for p in verb.params if p.param_type_name == "argument"]
    options = [p for p in verb.params if p.param_type_name == "option"]
    words = [_usage(argument) for argument in arguments]
    usage = " ".join(["lossleuth", name, *(["[OPTIONS]"] if options else []), *words])
    out = [f"### {name}", inspect.cleandoc(verb.help), f"```\n{usage}\n```"]
    rows = [(f"`{_usage(p)}`", p.help or "") for p in arguments]
    rows += [(_option(p), _described(p)) for p in options]
    if rows:
        table = [f"| {left} | {_cell(right)} |" for left, right in rows]
        out.append("\n".join(["| | |", "|---|---|", *table]))
    return out


def _usage(argument: Any) -> str:
    word = (argument.metavar or argument.name.upper()).strip("[].")
    word = f"{word}..." if argument.nargs == -1 else word
    return word if argument.required else f"[{word}]"


def _option(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts]
    return ", ".join(f"`{name}`" for name in names)


def _described(option: Any) -> str:
    text = option.help or ""
    default = option.default
    if "[default:" in text or not option.show_default or default in (None, (), []):
        return text
    if isinstance(default, bool):
        # A switch with two names has a default that its first name does not say.
        return f"{text} [default: {'yes' if default else 'no'}]" if option.secondary_opts else text
    return f"{text} [default: {default}]" if default != "" else text


def _cell(text: str) -> str:
    """Safe in a table: no bar, and no bracket that would begin an element of HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def python_page() -> str:
    """The public names with signature and docstring."""
    out = [
        MARK,
        "# Python",
        "All public names. `import lossleuth` loads none of them until it is used.",
    ]
    out.append("## lossleuth")
    for name in lossleuth.__all__:
        out += _entry(f"lossleuth.{name}", getattr(lossleuth, name))
    out.append("## lossleuth.kernels")
    out.append("Losses for training loops; see [Loss kernels](../kernels.md).")
    for name in kernels.__all__:
        out += _entry(f"lossleuth.kernels.{name}", getattr(kernels, name))
    return "\n\n".join(out) + "\n"


def _entry(name: str, thing: Any) -> list[str]:
    out = [f"### {name}"]
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        out.append(_prose(thing))
        out.append(", ".join(f"`{member.name}`" for member in thing) + ".")
        return out
    out += [_signature(name, thing), _prose(thing)]
    if isinstance(thing, type):
        rows = [(label, head) for label, head in map(_member, _members(thing)) if head]
        if rows:
            table = [f"| `{label}` | {_cell(head)} |" for label, head in rows]
            out.append("\n".join(["| | |", "|---|---|", *table]))
    return out


def _signature(name: str, thing: Any) -> str:
    parameters = []
    starred = False
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parameters.append("*")
        starred |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parameters.append(_parameter(parameter))
    short = f"{name}({', '.join(parameters)})"
    if len(short) > 90:
        short = f"{name}(\n" + "".join(f"    {p},\n" for p in parameters) + ")"
    return f"```python\n{short}\n```"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    # Annotations are strings: every module of ours imports them from the future.
    text = f"{stars}{parameter.name}: {parameter.annotation}"
    if parameter.default is parameter.empty:
        return text
    default = repr(parameter.default)
    return f"{text} = {'...' if default.startswith('<') else default}"


def _prose(thing: Any) -> str:
    """The docstring, its examples as blocks of code."""
    text = inspect.getdoc(thing) or ""
    blocks = []
    for block in text.split("\n\n"):
        if block.lstrip().startswith(">>>"):
            blocks.append(f"```pycon\n{textwrap.dedent(block)}\n```")
        else:
            # Names of parameters begin a list in some docstrings; stars would be emphasis.
            blocks.append(re.sub(r"(?<!`)\*\*(\w+)", r"`**\1`", block))
    return "\n\n".join(blocks)


def _members(kind: type) -> list[tuple[str, Any]]:
    return [(name, member) for name, member in vars(kind).items() if not name.startswith("_")]


def _member(item: tuple[str, Any]) -> tuple[str, str]:
    name, member = item
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    if isinstance(function, property):
        head = inspect.getdoc(function.fget) or ""
    elif inspect.isfunction(function):
        head, name = inspect.getdoc(function) or "", f"{name}()"
    else:
        return name, ""
    return name, head.partition("\n\n")[0]


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{FOLDER / name} written\n")


if __name__ == "__main__":
    main()
