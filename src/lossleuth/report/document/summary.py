"""The short form of a report, for a terminal: the same sentences, without tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lossleuth.judge.verdict import Verdict
from lossleuth.report.document.blocks import Answer, Paragraph, Source
from lossleuth.report.document.sentences import (
    INTERNAL_ERRORS,
    NOT_TESTED,
    RULED_OUT,
    answer_sentence,
    cause_title,
    listed,
    note_paragraphs,
    remedy_sentence,
    ruled_out_together,
    run_length,
)
from lossleuth.report.document.sources import format_place, source_at
from lossleuth.types.judgement import Judgement, Status

# Lines of source shown before and after the faulty one.
CONTEXT_LINES = 1
# From this many causes on, those with one reason share a sentence.
MIN_GROUP = 4

ShortBlock = Paragraph | Answer | Source


@dataclass(frozen=True)
class Part:
    """Blocks that belong together, with a heading or none."""

    title: str
    blocks: Sequence[ShortBlock]


def summary(verdict: Verdict) -> list[Part]:
    """The answer, each cause, notes, what was ruled out or not tested, and the run's length."""
    causes = [
        Part(cause_title(number, identifier, judgement), _cause(judgement))
        for number, identifier in enumerate(verdict.ranked, 1)
        for judgement in (verdict.judgements[identifier],)
    ]
    parts = [
        Part("", [Answer(verdict.status, answer_sentence(verdict))]),
        *causes,
        Part("", note_paragraphs(verdict)),
        Part("", [*_ruled_out(verdict), *_not_judged(verdict)]),
        Part("", [Paragraph(f"{run_length(verdict)}.")]),
    ]
    return [part for part in parts if part.blocks]


def _cause(judgement: Judgement) -> list[ShortBlock]:
    blocks: list[ShortBlock] = [Paragraph(judgement.because)]
    where = judgement.where
    if where is not None and where.file is not None:
        # The place is named even if its source cannot be read.
        without_lines = Source(format_place(where), 1, (), 1)
        blocks.append(source_at(where, CONTEXT_LINES) or without_lines)
    remedy = remedy_sentence(judgement)
    if remedy and judgement.status is not Status.BENIGN:
        blocks.append(Paragraph(remedy))
    return blocks


def _ruled_out(verdict: Verdict) -> list[Paragraph]:
    reasons = verdict.reasons(Status.REFUTED)
    single = [i for names, _ in reasons if len(names) < MIN_GROUP for i in names]
    shared = [(names, because) for names, because in reasons if len(names) >= MIN_GROUP]
    paragraphs = [Paragraph(listed(RULED_OUT, single))] if single else []
    return paragraphs + [Paragraph(ruled_out_together(*group)) for group in shared]


def _not_judged(verdict: Verdict) -> list[Paragraph]:
    titles = {Status.UNTESTED: NOT_TESTED, Status.ERRORED: INTERNAL_ERRORS}
    return [
        Paragraph(listed(title, verdict.of(status)))
        for status, title in titles.items()
        if verdict.of(status)
    ]
