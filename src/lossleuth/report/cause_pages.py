"""Cause pages as Markdown: `docs/causes/<id>.md` and an index, made from the docstrings.

The docstring of a cause's file is its documentation; these pages are that text for people who read
in a browser. They are written by `lossleuth causes --write docs/causes` and never by hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lossleuth.catalogue import causes, page
from lossleuth.files import make_directory, replace_file
from lossleuth.findings.finding import Finding, name_of
from lossleuth.types.cause import Cause
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Stage

# First line of every page; only files that begin with it are ever replaced or removed.
MARK = "<!-- Made by `lossleuth causes --write`; edit the docstring of the cause instead. -->"
INDEX = "README.md"

_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\*_\[\]<>|~&$@])")
_LEADING = re.compile(r"^([#+=-])|^(\d+)([.)])")


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    known = causes()
    return {INDEX: index(known)} | {f"{cause.id}.md": rendered(cause) for cause in known}


def rendered(cause: Cause) -> str:
    """The page of one cause: what it is, what it needs, and its docstring under its headings."""
    title, sections = _parts(page(cause))
    lines = [MARK, "", f"# {cause.id}", "", _text(title), "", *_facts(cause)]
    for heading, body in sections:
        lines += ["", f"## {_text(heading)}", ""]
        lines += [_text(line) for line in body]
    if cause.limits:
        lines += ["", "## Limits", "", "| limit | value | where it comes from |", "|---|---|---|"]
        lines += [f"| {_text(x.bounds)} | {x:g} | {_text(x.source)} |" for x in cause.limits]
    return "\n".join(lines) + "\n"


def index(known: Sequence[Cause]) -> str:
    """All causes, stage by stage, each with its line and its page."""
    lines = [
        MARK,
        "",
        "# Causes",
        "",
        f"The {len(known)} faults that lossleuth knows, in the order in which they are blamed: a "
        "fault of an earlier",
        "stage explains what is seen at later ones. What was said of each of them, planted in "
        "healthy programs, is in",
        "[the lab's table](../lab/table.md).",
    ]
    for stage in Stage:
        there = [cause for cause in known if cause.stage is stage]
        if there:
            lines += ["", f"## {stage.value.capitalize()}", "", "| cause | in a line | needs |"]
            lines += ["|---|---|---|", *map(_row, there)]
    return "\n".join(lines) + "\n"


def write(folder: Path) -> list[Path]:
    """Write all pages, and remove those of causes that are no more; where they are."""
    make_directory(folder)
    texts = pages()
    foreign = [name for name in texts if (folder / name).exists() and not _is_ours(folder / name)]
    if foreign:
        raise BadInput(
            "a folder of cause pages, or a new one",
            f"{folder / foreign[0]}, which was not made here",
            "give another folder after --write",
        )
    for name, text in texts.items():
        with replace_file(folder / name) as stream:
            stream.write(text.encode())
    for path in _orphans(folder, texts):
        path.unlink()
    return [folder / name for name in texts]


def stale(folder: Path) -> list[str]:
    """What is wrong with a folder of pages, each in a few words; nothing if all is well."""
    texts = pages()
    found = []
    for name, text in texts.items():
        path = folder / name
        if not path.is_file():
            found.append(f"{name} is missing")
        elif path.read_bytes() != text.encode():
            found.append(f"{name} is stale")
    others = sorted({path.name for path in folder.glob("*")} - set(texts))
    return found + [f"{name} belongs to no cause" for name in others]


def _orphans(folder: Path, texts: dict[str, str]) -> list[Path]:
    return [p for p in folder.glob("*.md") if p.name not in texts and _is_ours(p)]


def _is_ours(path: Path) -> bool:
    try:
        return path.read_bytes().startswith(MARK.encode())
    except OSError:
        return False


def _parts(text: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """A docstring's first line, and its sections: a heading, and indented lines under it."""
    title, *rest = text.splitlines()
    sections: list[tuple[str, list[str]]] = []
    for line in rest:
        if line and not line[0].isspace():
            sections.append((line, []))
        elif sections:
            sections[-1][1].append(line.strip())
    return title, [(heading, _trimmed(body)) for heading, body in sections]


def _trimmed(body: list[str]) -> list[str]:
    """Without the empty lines around it."""
    return "\n".join(body).strip("\n").split("\n")


def _facts(cause: Cause) -> list[str]:
    source = f"src/lossleuth/causes/{cause.stage.value}/{cause.id}.py"
    others = ", ".join(f"[{other}]({other}.md)" for other in cause.overlaps)
    lines = [
        f"- **Stage**: {cause.stage.value}",
        f"- **Needs**: {_needs(cause)}",
        f"- **Also reads**: {_names(cause.uses) if cause.uses else 'nothing'}",
        f"- **Overlaps**: {others or 'no other cause'}",
        f"- **Source**: [{source}](../../{source})",
    ]
    if cause.voids_trials:
        lines.insert(4, "- **Trials**: meaningless until it is fixed, so it is judged by itself")
    return lines


def _needs(cause: Cause) -> str:
    return _names(cause.needs)


def _names(kinds: Sequence[type[Finding]]) -> str:
    return ", ".join(f"`{name_of(kind)}`" for kind in kinds) or "nothing but the steps"


def _row(cause: Cause) -> str:
    return f"| [{cause.id}]({cause.id}.md) | {_text(cause.summary)} | {_needs(cause)} |"


def _text(line: str) -> str:
    """A line that reads the same in Markdown; what stands between backticks stays code.

    >>> _text("`a_b` is log_softmax")
    '`a_b` is log\\\\_softmax'
    """
    parts = _CODE.split(line)
    plain = "".join(p if i % 2 else _SPECIAL.sub(r"\\\1", p) for i, p in enumerate(parts))
    return _LEADING.sub(_shielded, plain)


def _shielded(found: re.Match[str]) -> str:
    """The beginning of a line that must not become a heading, a list or a rule."""
    return f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}"
