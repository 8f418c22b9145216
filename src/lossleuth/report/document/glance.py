"""The run at a glance: its loss against what the data allow, and how its parameters move."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lossleuth.catalogue import cause
from lossleuth.report.document.blocks import (
    Block,
    Bullets,
    Chart,
    HeatMap,
    Level,
    Paragraph,
    Section,
    Series,
    Table,
)
from lossleuth.report.document.facts import Facts, Floats, Matrix
from lossleuth.report.document.numbers import shown
from lossleuth.report.document.sampling import MOST_POINTS, sampled

# Places whose numbers are drawn; a script may read dozens.
MOST_READS = 3
# A number that the script reads is the loss if it is the same to this share.
SAME = 1e-3
# A share by which the differentiated loss may differ from the true one without a word.
NOTABLE = 0.1


def glance(facts: Facts) -> Section:
    """Pictures and figures of the whole run."""
    if not len(facts.steps):
        return Section("The run at a glance", [Paragraph("No update of parameters was recorded.")])
    known = [Bullets([("", note) for note in facts.verdict.notes[1:]])]
    blocks: list[Block] = [_loss(facts), *(known if known[0].items else ()), *_perplexity(facts)]
    blocks += _maps(facts)
    blocks += [
        chart
        for chart in (
            _scalar(facts, "grad_norm", "Gradient norm", "L2 over all parameters.", log=True),
            _scalar(facts, "lr", "Learning rate", "As the optimizer used it."),
            _effective_step(facts),
            _scalar(facts, "clip_factor", "Clip factor", "1 is not clipped; alone it is no fault."),
            _scalar(facts, "supervised", "Supervised tokens", "Targets that the loss counts."),
        )
        if chart is not None
    ]
    return Section("The run at a glance", blocks)


def _loss(facts: Facts) -> Chart:
    series = []
    if np.isfinite(facts.of("loss")).any():
        name = f"differentiated loss{_against_truth(facts)}"
        series.append(_line(name, facts.steps, facts.of("loss")))
    for place, values in _other_reads(facts).items():
        series.append(_line(f"read at {place}", facts.steps, values))
    if facts.true_steps:
        xs, ys = list(map(float, facts.true_steps)), list(facts.true_losses)
        series.append(Series("true loss", xs, ys, dots=True))
    note = _reduced(facts)
    told = "What the script follows and reads, and the true loss where it was computed"
    told += "; the levels are for the true loss"
    return Chart("Loss", f"{told}.", "nats", series, _levels(facts), note=note)


def _against_truth(facts: Facts) -> str:
    """How many times the true loss the differentiated one is, where that is not once."""
    loss = dict(zip(facts.steps, facts.of("loss"), strict=True))
    pairs = zip(facts.true_steps, facts.true_losses, strict=True)
    ratios = [loss[step] / true for step, true in pairs if step in loss and true]
    ratios = [ratio for ratio in ratios if math.isfinite(ratio)]
    usual = float(np.median(ratios)) if ratios else 1.0
    return "" if abs(usual - 1) < NOTABLE else f" ({usual:.2g} times the true loss)"


def _levels(facts: Facts) -> list[Level]:
    levels = []
    if facts.vocabulary:
        levels.append(Level(f"ln {facts.vocabulary}", math.log(facts.vocabulary)))
    unigram = floor(facts, "unigram")
    if unigram is not None:
        levels.append(Level("unigram", unigram))
    bigram = floor(facts, "bigram")
    if bigram is not None:
        levels.append(Level("bigram", bigram))
    return levels


def floor(facts: Facts, name: str) -> float | None:
    """What the seen data allow: by the frequency of targets, or by the token before."""
    known = facts.of("unigram")
    known = known[np.isfinite(known)]
    if name == "unigram" and len(known):
        return float(known[-1])
    return facts.floors.get(name)


def _other_reads(facts: Facts) -> dict[str, Floats]:
    """Numbers that the script reads and that are not simply the loss."""
    loss = facts.of("loss")
    found = {}
    for place, values in facts.reads.items():
        both = np.isfinite(values) & np.isfinite(loss)
        same = both.any() and np.allclose(values[both], loss[both], rtol=SAME, atol=0)
        if not same and np.isfinite(values).any():
            found[place] = values
    return dict(list(found.items())[:MOST_READS])


def _perplexity(facts: Facts) -> list[Block]:
    """True figures of the last recorded step, beside what the script reads there."""
    known = [
        (step, loss)
        for step, loss in zip(facts.true_steps, facts.true_losses, strict=True)
        if math.isfinite(loss)
    ]
    if not known:
        return [
            Paragraph(
                "No true loss: no step with tokens, targets and logits could be replayed. "
                "Perplexity is not shown of any other number."
            )
        ]
    step, loss = known[-1]
    rows = [
        ["true loss (unsmoothed cross-entropy per token)", f"{shown(loss)} nats"],
        ["perplexity, its exponential", shown(_exponential(loss))],
        ["bits per token", shown(loss / math.log(2))],
    ]
    for name, told in (("unigram", "frequencies alone"), ("bigram", "the token before")):
        value = floor(facts, name)
        if value is not None:
            rows.append([f"perplexity of knowing {told}", shown(_exponential(value))])
    table = Table(f"At step {step}", ["what", "value"], rows)
    return [table, *_differences(facts, step, loss)]


def _differences(facts: Facts, step: int, loss: float) -> list[Block]:
    """Where what the script reads is another number than the true loss."""
    at = np.flatnonzero(facts.steps == step)
    if not len(at):
        return []
    sentences = []
    for place, values in list(facts.reads.items())[:MOST_READS]:
        value = float(values[at[-1]])
        if math.isfinite(value) and not math.isclose(value, loss, rel_tol=SAME):
            ratio = f", {shown(value / loss, 3)} times the true loss" if loss else ""
            sentences.append(f"At {place} the script reads {shown(value)}{ratio}")
    return [Paragraph(f"{sentence}: {_why(facts)}.") for sentence in sentences]


def _why(facts: Facts) -> str:
    """Faults that make a printed loss another number than the true one."""
    there = [i for i in facts.verdict.ranked if cause(i).changes_printed_loss]
    return f"see {', '.join(there)}" if there else "another quantity, or other targets"


def _exponential(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _maps(facts: Facts) -> list[Block]:
    found: list[Block] = []
    texts = {
        "grad_rms": (
            "Gradient flow",
            "Root mean square of each parameter's gradient per element: rows from the first "
            "parameter down to the last, columns are steps.",
            "gradient RMS per element",
        ),
        "update_ratio": (
            "Update-to-weight ratio",
            "How far each parameter moves in a step, by its own size.",
            "update over weight",
        ),
    }
    for column, (title, told, unit) in texts.items():
        matrix = facts.matrices.get(column)
        if matrix is None or not np.isfinite(matrix.values).any():
            continue
        if not (matrix.values > 0).any():
            found.append(Paragraph(f"{title}: 0 for every parameter in every recorded step."))
            continue
        found.append(_map(matrix, title, told, unit))
    return found


def _map(matrix: Matrix, title: str, told: str, unit: str) -> HeatMap:
    rows, values = list(matrix.parameters), matrix.values.tolist()
    return HeatMap(title, told, unit, rows, list(matrix.steps), values, matrix.note)


def _effective_step(facts: Facts) -> Chart | None:
    """How far an element moves for each unit of rate: about 1 at the start of Adam."""
    moved = facts.matrices.get("update_rms")
    if moved is None or not np.isfinite(moved.values).any():
        return None
    rates = dict(zip(facts.steps.tolist(), facts.of("lr").tolist(), strict=True))
    lr = np.array([rates.get(step, math.nan) for step in moved.steps])
    lr = np.where(lr > 0, lr, math.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = moved.values / lr
    there = np.where(np.isfinite(steps), steps, math.nan)
    known: NDArray[np.bool_] = np.asarray(np.isfinite(there).any(axis=0))
    if not known.any():
        return None
    xs = [float(step) for step, k in zip(moved.steps, known, strict=True) if k]
    there = there[:, known]
    series = [
        Series("largest", xs, np.nanmax(there, axis=0).tolist()),
        Series("median", xs, np.nanmedian(there, axis=0).tolist()),
        Series("smallest", xs, np.nanmin(there, axis=0).tolist()),
    ]
    told = "Update per element over the rate, among all parameters; Adam begins at 1."
    return Chart("Effective step", told, "", series, logarithmic=True, note=moved.note)


def _scalar(
    facts: Facts, name: str, title: str, told: str, *, log: bool = False
) -> Chart | Paragraph | None:
    values = facts.of(name)
    if not np.isfinite(values).any():
        return None
    there = values[np.isfinite(values)]
    if len(there) == len(values) and (there == there[0]).all():
        return Paragraph(f"{title}: {shown(float(there[0]))} in every step.")
    line = _line(title.lower(), facts.steps, values)
    return Chart(title, told, "", [line], logarithmic=log, note=_reduced(facts))


def _line(name: str, xs: Floats, ys: Floats) -> Series:
    points = sampled(xs, ys)
    return Series(name, points.xs.tolist(), points.ys.tolist())


def _reduced(facts: Facts) -> str:
    if len(facts.steps) <= MOST_POINTS:
        return ""
    return f"{len(facts.steps)} steps; of each bunch the lowest and the highest are drawn."
