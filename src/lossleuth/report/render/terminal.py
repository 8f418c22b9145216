"""A verdict in a terminal: 80 columns, plain characters."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from typing import TextIO

from lossleuth.judge.verdict import Verdict
from lossleuth.report.document.of_evaluation import NOT_THE_TRAINING, OF_EVALUATION
from lossleuth.report.document.sources import source_at, told
from lossleuth.types.judgement import Judgement, Status

WIDTH = 80
# Lines of source that are shown around a place.
AROUND = 1
# So many causes that go for one reason are told in one sentence.
MANY = 4
COLOURS = {"proven": 31, "suspected": 33, "healthy": 32, "cannot_tell": 36}


def is_coloured(stream: TextIO) -> bool:
    """Whether somebody sees colours there and wants them."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def lines(verdict: Verdict, *, coloured: bool = False) -> Iterator[str]:
    """The verdict, line by line: the answer, its proof, what it is not, what was not tested."""
    for line in _answer(verdict):
        code = COLOURS.get(verdict.status, 0)
        yield f"\x1b[1;{code}m{line}\x1b[0m" if coloured else line
    for number, identifier in enumerate(verdict.ranked, 1):
        judgement = verdict.judgements[identifier]
        yield ""
        yield f"{number}. {identifier}: {judgement.status.value}"
        yield from _wrapped(judgement.because, "   ")
        yield from _place(judgement)
        if judgement.remedy and judgement.status is not Status.BENIGN:
            yield from _wrapped(f"Remedy: {judgement.remedy}", "   ")
    if verdict.notes[1:]:
        yield ""
        for note in verdict.notes[1:]:
            yield from _wrapped(note)
    yield from _ruled_out(verdict)
    untested = verdict.of(Status.UNTESTED)
    if untested:
        yield from _wrapped(f"Not tested: {', '.join(untested)}.")
    errored = verdict.of(Status.ERRORED)
    if errored:
        yield from _wrapped(f"Our own failures: {', '.join(errored)}.")
    yield ""
    yield f"{verdict.steps} steps observed, {verdict.seconds:.0f} s."


def _ruled_out(verdict: Verdict) -> Iterator[str]:
    """What it is not; many causes may go for one and the same reason."""
    reasons = verdict.reasons(Status.REFUTED)
    single = [i for names, _ in reasons if len(names) < MANY for i in names]
    if reasons:
        yield ""
    if single:
        yield from _wrapped(f"Ruled out, each with a number: {', '.join(single)}.")
    for names, because in reasons:
        if len(names) >= MANY:
            first = f"{names[0]} and {len(names) - 1} more of its kind"
            yield from _wrapped(f"Ruled out together, {first}: {because}.")


def _answer(verdict: Verdict) -> Iterator[str]:
    note = f" ({verdict.notes[0]})" if verdict.notes else ""
    if verdict.status == "healthy":
        yield from _wrapped(f"Healthy: no fault was found, and the run learns{note}.")
    elif verdict.status == "cannot_tell":
        yield from _wrapped(f"Cannot tell: no cause was found{note}.")
    else:
        first = verdict.ranked[0]
        where = verdict.judgements[first].where
        at = f", at {told(where)}" if where is not None and where.file else ""
        if first in OF_EVALUATION:
            yield from _wrapped(f"A reported number is wrong, {NOT_THE_TRAINING}: {first}{at}.")
            return
        yield from _wrapped(f"The cause is {first} ({verdict.judgements[first].status.value}){at}.")


def _place(judgement: Judgement) -> Iterator[str]:
    where = judgement.where
    if where is None or where.file is None:
        return
    yield _plain(f"   at {told(where)}" + (f" in {where.module}" if where.module else ""))
    source = source_at(where, AROUND)
    if source is None:
        return
    for number, line in enumerate(source.lines, source.first):
        mark = ">" if number == source.marked else " "
        yield f"   {mark} {number:>5} {_plain(line[: WIDTH - 12])}"


def _plain(text: str) -> str:
    """Without characters that command a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        _plain(text), WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
