"""The first sections of a report: the answer, its proof, and what was ruled out."""

from __future__ import annotations

import math
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
from lossleuth.report.document.fixes import suggested_fix
from lossleuth.report.document.numbers import format_number
from lossleuth.report.document.sampling import sampled
from lossleuth.report.document.sentences import (
    EVALUATION_CAUSES,
    RULED_OUT,
    answer_sentence,
    as_sentence,
    cause_title,
    present,
    remedy_sentence,
)
from lossleuth.report.document.sources import source_at
from lossleuth.types.change import Effect
from lossleuth.types.judgement import Judgement, Status

DOES_BETTER = "What would do better"


def answer(facts: Facts) -> Section:
    """One sentence, the reason and the source line."""
    verdict = facts.verdict
    blocks: list[Block] = [Answer(verdict.status, answer_sentence(verdict))]
    if verdict.status in ("proven", "suspected"):
        first = verdict.judgements[verdict.ranked[0]]
        blocks.append(Paragraph(first.because))
        source = source_at(first.where)
        if source is not None:
            blocks.append(source)
        others = [f"{i} ({verdict.judgements[i].status.value})" for i in present(verdict)[1:]]
        if others:
            blocks.append(Paragraph(f"Also found: {', '.join(others)}.", strong=True))
    elif verdict.status == "cannot_tell":
        blocks.append(Paragraph(_next_step(facts)))
    return Section("", blocks)


def _next_step(facts: Facts) -> str:
    """What the user can do to get an answer."""
    if any(gain.counts for gain in facts.verdict.headroom):
        return (
            f'Something holds this run back that no known cause explains: see "{DOES_BETTER}" '
            "below for the change that helps."
        )
    yardstick = facts.verdict.yardstick
    if yardstick is not None and yardstick.is_behind:
        return (
            "No known cause explains it. The reference trains by AdamW at a rate of "
            f"{yardstick.rate:g} with a warm-up: try that, then put plain parts in the place of "
            "the model's own until the difference is gone."
        )
    untested = len(facts.verdict.of(Status.UNTESTED))
    if not untested:
        return (
            "Every known cause was tested and ruled out. Either the fault is not in the catalogue, "
            "or the run needs more steps to show that it learns: try a larger --budget."
        )
    causes_were = "1 cause was" if untested == 1 else f"{untested} causes were"
    return f"{causes_were} not tested; the reasons are below. A larger --budget usually decides it."


def proof(facts: Facts) -> Section | None:
    """For each cause: expected and measured value, the trial, the remedy."""
    verdict = facts.verdict
    blocks: list[Block] = []
    for number, identifier in enumerate(present(verdict), 1):
        judgement = verdict.judgements[identifier]
        blocks.append(Paragraph(cause_title(number, identifier, judgement), strong=True))
        if number > 1:
            blocks.append(Paragraph(judgement.because))
            source = source_at(judgement.where)
            if source is not None:
                blocks.append(source)
        blocks += _proof_of(identifier, judgement, facts)
    return Section("Proof", blocks) if blocks else None


def _proof_of(identifier: str, judgement: Judgement, facts: Facts) -> Iterator[Block]:
    wrong = judgement.wrongness
    if wrong is not None:
        rows = [
            ["expected", format_number(wrong.expected)],
            ["measured", format_number(wrong.value)],
        ]
        if not math.isnan(wrong.floor):
            rows.append(["rounding floor", format_number(wrong.floor, 2)])
        yield Table("", ["", wrong.what], rows)
    if judgement.harm is not None:
        yield Paragraph(_harm_sentence(judgement.harm))
        first = judgement.phase.first if judgement.phase else 0
        chart = trial_chart(judgement.harm, [run for run in facts.trials if run.first == first])
        if chart is not None:
            yield chart
    elif judgement.status is Status.PROVEN or identifier in EVALUATION_CAUSES:
        yield Paragraph(f"No trial was needed: {_why_no_trial(identifier)}.")
    remedy = remedy_sentence(judgement)
    if remedy:
        yield Paragraph(remedy)
    diff = suggested_fix(identifier, judgement)
    if diff is not None:
        yield diff
    elif judgement.where is not None and judgement.where.line is None and judgement.where.file:
        yield Paragraph(f"The fault is not in the script but in {judgement.where.file}.")
    yield _catalogue_page(identifier)


def _harm_sentence(harm: Effect) -> str:
    better = "better" if harm.nats > 0 else "worse"
    return (
        f"Re-run from the same start on the same batches with {harm.change.sentence} applied: "
        f"{harm.measure} {format_number(harm.with_change)} instead of "
        f"{format_number(harm.without)} after {harm.steps} steps, "
        f"{format_number(abs(harm.nats), 3)} ± {format_number(harm.error, 2)} nats {better} over "
        f"{harm.seeds} paired runs."
    )


def trial_chart(harm: Effect, runs: Sequence[TrialRun]) -> Chart | None:
    """Both loss curves of every pair."""
    changed = [r for r in runs if r.changes[-1:] == (harm.change,) and r.steps == harm.steps]
    if not changed:
        return None
    base = changed[0].changes[:-1]
    unchanged = {r.seed: r for r in runs if r.changes == base and r.steps == harm.steps}
    series: list[Series] = []
    for run in changed:
        pair = unchanged.get(run.seed)
        if run.changes[:-1] != base or pair is None:
            continue
        series.append(_curve(pair, "unchanged", faint=True))
        series.append(_curve(run, harm.change.sentence, faint=False))
    if not series:
        return None
    return Chart(
        "Trial",
        f"Loss passed to backward in {len(series) // 2} paired runs of {harm.steps} steps, without "
        f"and with {harm.change.sentence}.",
        "nats",
        series,
        note=f"The effect is measured on the {harm.measure} of the last steps.",
    )


def _curve(run: TrialRun, group: str, *, faint: bool) -> Series:
    points = sampled(np.arange(len(run.losses), dtype=np.float64), run.losses)
    name = f"{group}, seed {run.seed + 1}"
    return Series(name, points.xs.tolist(), points.ys.tolist(), group=group, faint=faint)


def challenges(facts: Facts) -> Section | None:
    """What the run would have gained by standing changes, with their trials."""
    blocks: list[Block] = []
    for gain in facts.verdict.headroom:
        blocks.append(Paragraph(as_sentence(gain.sentence), strong=gain.counts))
        chart = trial_chart(gain.effect, facts.trials)
        if chart is not None:
            blocks.append(chart)
    return Section(DOES_BETTER, blocks) if blocks else None


def ruled_out(facts: Facts) -> Section | None:
    """Refuted causes and harmless faults, each with its deciding number."""
    verdict = facts.verdict
    blocks: list[Block] = []
    reasons = verdict.reasons(Status.REFUTED)
    if reasons:
        items = [(", ".join(names), as_sentence(because)) for names, because in reasons]
        blocks.append(Bullets(items))
    benign = verdict.of(Status.BENIGN)
    if benign:
        blocks.append(Paragraph("Present, but harmless:", strong=True))
        blocks.append(Bullets([(i, _why_harmless(verdict.judgements[i])) for i in benign]))
    return Section(RULED_OUT, blocks) if blocks else None


def _why_no_trial(identifier: str) -> str:
    if identifier in EVALUATION_CAUSES:
        return "the weights do not depend on this number"
    if identifier in {cause.id for cause in causes() if cause.voids_trials}:
        return "with this fault, the loss itself is meaningless"
    return "the number above is exact and is proof by itself"


def _why_harmless(judgement: Judgement) -> str:
    harm = "" if judgement.harm is None else f" {_harm_sentence(judgement.harm)}"
    return f"{as_sentence(judgement.because)}{harm}"


def _catalogue_page(identifier: str) -> Folded:
    """The catalogue's page on a cause, so that the report needs no network."""
    cause = {cause.id: cause for cause in causes()}.get(identifier)
    text = page(cause) if cause is not None else "This version does not know this cause."
    blocks = [Paragraph(part.strip()) for part in text.split("\n\n")]
    return Folded(f"More about {identifier} (docs/causes/{identifier}.md)", blocks, identifier)
