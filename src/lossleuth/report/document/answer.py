"""The first parts of a report: the answer, its proof, and what it is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lossleuth.catalogue import causes, page
from lossleuth.report.document.blocks import (
    Answer,
    Block,
    Bullets,
    Chart,
    Folded,
    Paragraph,
    Section,
    Series,
    Table,
)
from lossleuth.report.document.facts import Facts, TrialRun
from lossleuth.report.document.fixes import repair_of
from lossleuth.report.document.numbers import shown
from lossleuth.report.document.of_evaluation import NOT_THE_TRAINING, OF_EVALUATION
from lossleuth.report.document.sampling import sampled
from lossleuth.report.document.sources import source_at, told
from lossleuth.types.change import Effect
from lossleuth.types.judgement import Judgement, Status

SUMMARIES = {cause.id: cause.summary for cause in causes()}


def answer(facts: Facts) -> Section:
    """One sentence, the place, and the number that proves it."""
    verdict = facts.verdict
    blocks: list[Block] = [Answer(verdict.status, answer_sentence(facts))]
    if verdict.status in ("proven", "suspected"):
        first = verdict.judgements[verdict.ranked[0]]
        blocks.append(Paragraph(first.because))
        source = source_at(first.where)
        if source is not None:
            blocks.append(source)
        others = _others(facts)
        if others:
            blocks.append(Paragraph(f"Also there: {others}.", strong=True))
    elif verdict.status == "cannot_tell":
        blocks.append(Paragraph(_would_decide(facts)))
    return Section("", blocks)


def answer_sentence(facts: Facts) -> str:
    """The whole verdict in one sentence."""
    verdict = facts.verdict
    note = f": {verdict.notes[0]}" if verdict.notes else ""
    if verdict.status == "healthy":
        return f"No fault was found, and the run learns{note}."
    if verdict.status == "cannot_tell":
        return f"No cause was found, and the run was not seen to learn{note}."
    first = verdict.ranked[0]
    where = verdict.judgements[first].where
    at = f", at {told(where)}" if where is not None and where.file else ""
    if first in OF_EVALUATION:
        return f"A reported number is wrong, {NOT_THE_TRAINING}: {first}, {SUMMARIES[first]}{at}."
    return f"The cause is {first}: {SUMMARIES.get(first, first)}{at}."


def _others(facts: Facts) -> str:
    verdict = facts.verdict
    there = [i for i in verdict.ranked[1:] if verdict.judgements[i].status is not Status.BENIGN]
    return ", ".join(f"{i} ({verdict.judgements[i].status.value})" for i in there)


def _would_decide(facts: Facts) -> str:
    untested = facts.verdict.of(Status.UNTESTED)
    if not untested:
        return (
            "Every cause that is known was tested and ruled out. What is wrong here has no name in "
            "this catalogue, or the run needs more steps to show that it learns: give more --steps."
        )
    return (
        f"What would decide it: {len(untested)} causes could not be tested. Their reasons are "
        "below; most often it takes more --steps or a larger --budget."
    )


def proof(facts: Facts) -> Section | None:
    """For each cause that is there: what is right, what was found, the trial, the cure."""
    verdict = facts.verdict
    there = [i for i in verdict.ranked if verdict.judgements[i].status is not Status.BENIGN]
    if not there:
        return None
    blocks: list[Block] = []
    for number, identifier in enumerate(there, 1):
        judgement = verdict.judgements[identifier]
        title = f"{number}. {identifier}: {judgement.status.value}"
        blocks.append(Paragraph(title, strong=True))
        if number > 1:
            blocks.append(Paragraph(judgement.because))
            source = source_at(judgement.where)
            if source is not None:
                blocks.append(source)
        blocks += _proof_of(identifier, judgement, facts)
    return Section("The proof", blocks)


def _proof_of(identifier: str, judgement: Judgement, facts: Facts) -> Iterator[Block]:
    wrong = judgement.wrongness
    if wrong is not None:
        rows = [
            ["correct programs", shown(wrong.expected)],
            ["this program", shown(wrong.value)],
            ["what rounding alone could make of it", shown(wrong.floor, 2)],
        ]
        yield Table("", ["invariant", wrong.what], rows)
    if judgement.harm is not None:
        yield Paragraph(_harm_sentence(judgement.harm))
        picture = trial_chart(judgement.harm, facts.trials)
        if picture is not None:
            yield picture
    elif identifier in OF_EVALUATION:
        yield Paragraph("No trial was needed: the weights do not depend on this number.")
    elif judgement.status is Status.PROVEN:
        yield Paragraph(f"No trial was needed: {_without_trial(identifier)}.")
    diff = repair_of(identifier, judgement)
    if judgement.remedy:
        yield Paragraph(f"Remedy: {judgement.remedy}")
    if diff is not None:
        yield diff
    elif judgement.where is not None and judgement.where.line is None and judgement.where.file:
        yield Paragraph(f"The fault is not in the script: look at {judgement.where.file}.")
    yield _page_of(identifier)


def _harm_sentence(harm: Effect) -> str:
    better = "better" if harm.nats > 0 else "worse"
    return (
        f"The same program, from the same start and with the same batches, was run with "
        f"{harm.change.sentence} in: {harm.measure} {shown(harm.with_change)} instead of "
        f"{shown(harm.without)} after {harm.steps} steps, {shown(abs(harm.nats), 3)} ± "
        f"{shown(harm.error, 2)} nats {better} over {harm.seeds} paired runs."
    )


def trial_chart(harm: Effect, runs: Sequence[TrialRun]) -> Chart | None:
    """Both loss curves of every pair."""
    changed = [r for r in runs if r.changes[-1:] == (harm.change,) and r.steps == harm.steps]
    if not changed:
        return None
    base = changed[0].changes[:-1]
    plain = {r.seed: r for r in runs if r.changes == base and r.steps == harm.steps}
    series: list[Series] = []
    for run in changed:
        pair = plain.get(run.seed)
        if run.changes[:-1] != base or pair is None:
            continue
        series.append(_curve(pair, "unchanged", faint=True))
        series.append(_curve(run, harm.change.sentence, faint=False))
    if not series:
        return None
    return Chart(
        "The trial",
        f"Loss that the script differentiates, {len(series) // 2} paired runs of {harm.steps} "
        f"steps without and with {harm.change.sentence}.",
        "nats",
        series,
        note=f"The effect is measured on the {harm.measure} of the last steps.",
    )


def _curve(run: TrialRun, group: str, *, faint: bool) -> Series:
    points = sampled(np.arange(len(run.losses), dtype=np.float64), run.losses)
    name = f"{group}, seed {run.seed + 1}"
    return Series(name, points.xs.tolist(), points.ys.tolist(), group=group, faint=faint)


def ruled_out(facts: Facts) -> Section | None:
    """What it is not: refuted causes and harmless faults, each with its deciding number."""
    verdict = facts.verdict
    blocks: list[Block] = []
    refuted = verdict.of(Status.REFUTED)
    if refuted:
        blocks.append(Paragraph(f"{len(refuted)} causes were tested and are not so:"))
        told = [(", ".join(i), _sentence(why)) for i, why in verdict.reasons(Status.REFUTED)]
        blocks.append(Bullets(told))
    benign = verdict.of(Status.BENIGN)
    if benign:
        blocks.append(Paragraph("There, and shown not to matter:", strong=True))
        blocks.append(Bullets([(i, _cleared(verdict.judgements[i])) for i in benign]))
    return Section("What it is not", blocks) if blocks else None


def _without_trial(identifier: str) -> str:
    known = {c.id for c in causes() if c.voids_trials}
    if identifier in known:
        return "with this fault, the loss itself says nothing"
    return "the number above is exact, and alone proves it"


def _cleared(judgement: Judgement) -> str:
    harm = "" if judgement.harm is None else f" {_harm_sentence(judgement.harm)}"
    return f"{_sentence(judgement.because)}{harm}"


def _sentence(text: str) -> str:
    """A reason as a sentence of its own.

    >>> _sentence("all of 3 losses are finite")
    'All of 3 losses are finite.'
    """
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _page_of(identifier: str) -> Folded:
    """What the catalogue says of a cause, inside the report: it needs no network."""
    known = {cause.id: cause for cause in causes()}
    cause = known.get(identifier)
    text = page(cause) if cause is not None else "This version does not know this cause."
    blocks = [Paragraph(part.strip()) for part in text.split("\n\n")]
    return Folded(f"More about {identifier} (docs/causes/{identifier}.md)", blocks, identifier)
