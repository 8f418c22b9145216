"""A verdict in a terminal: 80 columns, plain characters."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from lossleuth.examiner.verdict import Verdict
from lossleuth.types import Judgement, Status, Where

WIDTH = 80
# Lines of source that are shown around a place.
AROUND = 1


def lines(verdict: Verdict) -> Iterator[str]:
    """The verdict, line by line: the answer, its proof, what it is not, what was not tested."""
    yield from _answer(verdict)
    for number, identifier in enumerate(verdict.ranked, 1):
        judgement = verdict.judgements[identifier]
        yield ""
        yield f"{number}. {identifier}: {judgement.status.value}"
        yield from _wrapped(judgement.because, "   ")
        yield from _place(judgement)
        if judgement.remedy and judgement.status is not Status.BENIGN:
            yield from _wrapped(f"Remedy: {judgement.remedy}", "   ")
    refuted = verdict.of(Status.REFUTED)
    if refuted:
        yield ""
        yield from _wrapped(f"Ruled out, each with a number: {', '.join(refuted)}.")
    untested = verdict.of(Status.UNTESTED)
    if untested:
        yield from _wrapped(f"Not tested: {', '.join(untested)}.")
    errored = verdict.of(Status.ERRORED)
    if errored:
        yield from _wrapped(f"Our own failures: {', '.join(errored)}.")
    yield ""
    yield f"{verdict.steps} steps observed, {verdict.seconds:.0f} s."


def _answer(verdict: Verdict) -> Iterator[str]:
    note = f" ({verdict.notes[0]})" if verdict.notes else ""
    if verdict.status == "healthy":
        yield from _wrapped(f"Healthy: no fault was found, and the run learns{note}.")
    elif verdict.status == "cannot_tell":
        yield from _wrapped(f"Cannot tell: no cause was found{note}.")
    else:
        first = verdict.ranked[0]
        where = verdict.judgements[first].where
        at = f", at {_told(where)}" if where is not None and where.file else ""
        yield from _wrapped(f"The cause is {first} ({verdict.judgements[first].status.value}){at}.")


def _told(where: Where) -> str:
    name = where.file or "?"
    return name if where.line is None else f"{name}:{where.line}"


def _place(judgement: Judgement) -> Iterator[str]:
    where = judgement.where
    if where is None or where.file is None:
        return
    yield _plain(f"   at {_told(where)}" + (f" in {where.module}" if where.module else ""))
    if where.line is None:
        return
    try:
        source = Path(where.file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    first = max(1, where.line - AROUND)
    for number in range(first, min(len(source), where.line + AROUND) + 1):
        mark = ">" if number == where.line else " "
        shown = source[number - 1].rstrip()[: WIDTH - 12]
        yield f"   {mark} {number:>5} {_plain(shown)}"


def _plain(text: str) -> str:
    """Without characters that command a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        _plain(text), WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
