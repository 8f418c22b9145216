"""The sentences and headings of a verdict: every form of the report takes them from here."""

from __future__ import annotations

from collections.abc import Sequence

from lossleuth.catalogue import causes
from lossleuth.judge.verdict import Verdict
from lossleuth.report.document.blocks import Paragraph
from lossleuth.report.document.sources import format_where
from lossleuth.types.judgement import Judgement, Stage, Status

SUMMARIES = {cause.id: cause.summary for cause in causes()}
# Faults of a reported number: no weight depends on them.
EVALUATION_CAUSES = frozenset(cause.id for cause in causes() if cause.stage is Stage.EVALUATION)

RULED_OUT = "Ruled out"
NOT_TESTED = "Not tested"
INTERNAL_ERRORS = "Internal errors while judging"


def answer_sentence(verdict: Verdict) -> str:
    """The whole verdict in one sentence."""
    seen = f" ({verdict.notes[0]})" if verdict.notes else ""
    if verdict.status == "healthy":
        return f"No fault found: the run is learning{seen}."
    if verdict.status == "cannot_tell":
        reason = verdict.notes[0] if verdict.notes else "nothing shows that the run is learning"
        return f"No cause found, but {reason.rstrip('.')}."
    first = verdict.ranked[0]
    where = verdict.judgements[first].where
    at = f", at {format_where(where)}" if where is not None and where.file else ""
    fault = f"{first}: {SUMMARIES[first]}" if first in SUMMARIES else first
    if first not in EVALUATION_CAUSES:
        return f"The cause is {fault}{at}."
    wrong = f"reported number is wrong ({fault}){at}."
    if EVALUATION_CAUSES.issuperset(present(verdict)):
        return f"No fault found in training, but a {wrong}"
    return f"A {wrong}"


def cause_title(number: int, identifier: str, judgement: Judgement) -> str:
    """The heading of one cause, such as `1. label_offset: proven`."""
    return f"{number}. {identifier}: {judgement.status.value}"


def remedy_sentence(judgement: Judgement) -> str:
    """How to fix it; empty where the judge has no advice."""
    return f"Remedy: {judgement.remedy}" if judgement.remedy else ""


def listed(title: str, identifiers: Sequence[str]) -> str:
    """Causes under their title, in one line.

    >>> listed(NOT_TESTED, ["ascent", "overflow"])
    'Not tested: ascent, overflow.'
    """
    return f"{title}: {', '.join(identifiers)}."


def ruled_out_together(identifiers: Sequence[str], because: str) -> str:
    """Many causes that one reason rules out.

    >>> ruled_out_together(["teacher_offset", "teacher_weak"], "there is no teacher")
    'teacher_offset and 1 similar cause ruled out: there is no teacher.'
    """
    others = len(identifiers) - 1
    similar = f"{others} similar cause{'' if others == 1 else 's'}"
    return f"{identifiers[0]} and {similar} ruled out: {because.rstrip('.')}."


def note_paragraphs(verdict: Verdict) -> list[Paragraph]:
    """Further notes on the run; the first is part of the answer."""
    return [Paragraph(as_sentence(note)) for note in verdict.notes[1:]]


def as_sentence(text: str) -> str:
    """A reason as a sentence of its own.

    >>> as_sentence("all of 3 losses are finite")
    'All of 3 losses are finite.'
    """
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def run_length(verdict: Verdict) -> str:
    """How many steps were observed, and how long everything took."""
    steps = f"{verdict.steps} step{'' if verdict.steps == 1 else 's'} observed"
    return f"{steps} in {verdict.seconds:.0f} s" if verdict.seconds else steps


def present(verdict: Verdict) -> list[str]:
    """The causes that do harm, the answer first."""
    return [i for i in verdict.ranked if verdict.judgements[i].status is not Status.BENIGN]
