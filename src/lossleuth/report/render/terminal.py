"""Print a verdict in a terminal: 80 columns, plain characters."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from typing import TextIO, assert_never

from lossleuth.judge.verdict import Verdict
from lossleuth.report.document.blocks import Answer, Paragraph, Source
from lossleuth.report.document.summary import ShortBlock, summary

WIDTH = 80
INDENT = "   "
# ANSI codes by the verdict's status.
COLOURS = {"proven": 31, "suspected": 33, "healthy": 32, "cannot_tell": 36}


def is_coloured(stream: TextIO) -> bool:
    """Whether the stream is a terminal whose user wants colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def lines(verdict: Verdict, *, coloured: bool = False) -> Iterator[str]:
    """The short form of the report, line by line."""
    for number, part in enumerate(summary(verdict)):
        if number:
            yield ""
        if part.title:
            yield _printable(part.title)
        for block in part.blocks:
            yield from _block(block, INDENT if part.title else "", coloured)


def _block(block: ShortBlock, indent: str, coloured: bool) -> Iterator[str]:
    match block:
        case Paragraph():
            yield from _wrapped(block.text, indent)
        case Answer():
            code = COLOURS.get(block.status, 0)
            for line in _wrapped(f"{block.label}. {block.text}", indent):
                yield f"\x1b[1;{code}m{line}\x1b[0m" if coloured else line
        case Source():
            yield from _source(block, indent)
        case _:
            assert_never(block)


def _source(source: Source, indent: str) -> Iterator[str]:
    # Not wrapped: a path is there to be copied.
    yield f"{indent}at {_printable(source.place)}"
    for number, line in enumerate(source.lines, source.first):
        start = f"{indent}{'>' if number == source.marked else ' '} {number:>5} "
        yield start + _printable(line[: WIDTH - len(start)])


def _printable(text: str) -> str:
    """The text without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        _printable(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
