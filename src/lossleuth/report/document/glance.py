"""The run at a glance: its loss against reference models, gradients and updates."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lossleuth.catalogue import causes
from lossleuth.report.document.blocks import (
    Block,
    Chart,
    HeatMap,
    Level,
    Paragraph,
    Section,
    Series,
    Table,
)
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.matrix import Floats, Matrix
from lossleuth.report.document.numbers import format_number
from lossleuth.report.document.sampling import MAX_POINTS, sampled
from lossleuth.report.document.sentences import note_paragraphs

# Lines of the script whose numbers are drawn; a script may read dozens.
MAX_READS = 3
# A number that the script reads is the loss if it agrees to this relative tolerance.
LOSS_RTOL = 1e-3
# The loss passed to backward is annotated if it differs from the true loss by this share.
MIN_LOSS_DEVIATION = 0.1

TITLE = "The run at a glance"


def glance(facts: Facts) -> Section:
    """Charts and tables of the whole run."""
    if not len(facts.steps):
        return Section(TITLE, [Paragraph("No optimizer step was recorded.")])
    blocks: list[Block] = [_loss(facts)]
    blocks += note_paragraphs(facts.verdict)
    blocks += [*_perplexity(facts), *_heat_maps(facts)]
    blocks += [
        chart
        for chart in (
            _scalar(facts, "grad_norm", "Gradient norm", "L2 norm over all parameters.", log=True),
            _scalar(facts, "lr", "Learning rate", "As used by the optimizer."),
            _effective_step(facts),
            _scalar(
                facts,
                "clip_factor",
                "Clip factor",
                "1 means not clipped. Clipping alone is no fault.",
            ),
            _scalar(facts, "supervised", "Supervised tokens", "Targets that count in the loss."),
        )
        if chart is not None
    ]
    return Section(TITLE, blocks)


def _loss(facts: Facts) -> Chart:
    series = []
    if np.isfinite(facts.of("loss")).any():
        name = f"loss passed to backward{_ratio_to_true(facts)}"
        series.append(_line(name, facts.steps, facts.of("loss")))
    for place, values in _other_reads(facts).items():
        series.append(_line(f"read at {place}", facts.steps, values))
    if facts.true_losses:
        xs, ys = list(map(float, facts.true_losses)), list(facts.true_losses.values())
        series.append(Series("true loss", xs, ys, dots=True))
    series += [_line(name, *points) for name, points in facts.references.items()]
    description = (
        "The loss passed to backward, other numbers that the script reads, the true loss where it "
        "was recomputed, and references that were trained on the same batches. Dashed lines: "
        "scores of reference models."
    )
    note = _sampling_note(facts)
    return Chart("Loss", description, "nats", series, _levels(facts), note=note)


def _ratio_to_true(facts: Facts) -> str:
    """The ratio to the true loss, unless it is about 1."""
    loss = dict(zip(facts.steps, facts.of("loss"), strict=True))
    pairs = facts.true_losses.items()
    ratios = [loss[step] / true for step, true in pairs if step in loss and true]
    ratios = [ratio for ratio in ratios if math.isfinite(ratio)]
    usual = float(np.median(ratios)) if ratios else 1.0
    return "" if abs(usual - 1) < MIN_LOSS_DEVIATION else f" ({usual:.2g} times the true loss)"


def _levels(facts: Facts) -> list[Level]:
    uniform = math.log(facts.vocabulary) if facts.vocabulary else None
    scores = {
        f"ln {facts.vocabulary}": uniform,
        "unigram": unigram(facts),
        "bigram": facts.floors.bigram,
    }
    return [Level(name, score) for name, score in scores.items() if score is not None]


def unigram(facts: Facts) -> float | None:
    """The loss of a model that knows only token frequencies: of the targets, else of all tokens."""
    of_targets = facts.of("unigram")
    of_targets = of_targets[np.isfinite(of_targets)]
    return float(of_targets[-1]) if len(of_targets) else facts.floors.unigram


def _other_reads(facts: Facts) -> dict[str, Floats]:
    """Numbers that the script reads, other than the loss."""
    loss = facts.of("loss")
    found = {}
    for place, values in facts.reads.items():
        both = np.isfinite(values) & np.isfinite(loss)
        same = both.any() and np.allclose(values[both], loss[both], rtol=LOSS_RTOL, atol=0)
        if not same and np.isfinite(values).any():
            found[place] = values
    return dict(list(found.items())[:MAX_READS])


def _perplexity(facts: Facts) -> list[Block]:
    """True loss and perplexity of the last recorded step, beside what the script reads there."""
    known = [pair for pair in facts.true_losses.items() if math.isfinite(pair[1])]
    if not known:
        return [
            Paragraph(
                "True loss unknown: no step with tokens, targets and logits could be replayed. "
                "So no perplexity is shown either."
            )
        ]
    step, loss = known[-1]
    rows = [
        ["true loss (unsmoothed cross-entropy per token)", f"{format_number(loss)} nats"],
        ["perplexity", format_number(_exponential(loss))],
        ["bits per token", format_number(loss / math.log(2))],
    ]
    for name, value in (("unigram", unigram(facts)), ("bigram", facts.floors.bigram)):
        if value is not None:
            rows.append([f"perplexity of a {name} model", format_number(_exponential(value))])
    table = Table(f"At step {step}", ["", "value"], rows)
    return [table, *_differences(facts, step, loss)]


def _differences(facts: Facts, step: int, loss: float) -> list[Block]:
    """Numbers that the script reads and that differ from the true loss."""
    at = np.flatnonzero(facts.steps == step)
    if not len(at):
        return []
    sentences = []
    for place, values in list(facts.reads.items())[:MAX_READS]:
        value = float(values[at[-1]])
        if math.isfinite(value) and not math.isclose(value, loss, rel_tol=LOSS_RTOL):
            ratio = f", {format_number(value / loss, 3)} times the true loss" if loss else ""
            sentences.append(f"At {place} the script reads {format_number(value)}{ratio}")
    return [Paragraph(f"{sentence}: {_why(facts)}.") for sentence in sentences]


def _why(facts: Facts) -> str:
    """Faults found that change the printed loss."""
    changing = {cause.id for cause in causes() if cause.changes_printed_loss}
    found = [i for i in facts.verdict.ranked if i in changing]
    return f"see {', '.join(found)}" if found else "it is another quantity, or has other targets"


def _exponential(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _heat_maps(facts: Facts) -> list[Block]:
    found: list[Block] = []
    texts = {
        "grad_rms": (
            "Gradient flow",
            "RMS of each parameter's gradient. Rows are parameters, the first on top; columns are "
            "steps.",
            "gradient RMS",
        ),
        "update_ratio": (
            "Update-to-weight ratio",
            "RMS of each parameter's update, relative to the RMS of its weights.",
            "update / weight",
        ),
    }
    for column, (title, description, unit) in texts.items():
        matrix = facts.matrices.get(column)
        if matrix is None or not np.isfinite(matrix.values).any():
            continue
        if not (matrix.values > 0).any():
            found.append(Paragraph(f"{title}: 0 for every parameter at every recorded step."))
            continue
        found.append(_heat_map(matrix, title, description, unit))
    return found


def _heat_map(matrix: Matrix, title: str, description: str, unit: str) -> HeatMap:
    rows, values = list(matrix.parameters), matrix.values.tolist()
    return HeatMap(title, description, unit, rows, list(matrix.steps), values, matrix.note)


def _effective_step(facts: Facts) -> Chart | None:
    """Update per element divided by the learning rate: about 1 at the start of Adam."""
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
    description = (
        "RMS update divided by the learning rate: largest, median and smallest parameter. Adam "
        "starts near 1."
    )
    return Chart("Effective step", description, "", series, logarithmic=True, note=moved.note)


def _scalar(
    facts: Facts, name: str, title: str, description: str, *, log: bool = False
) -> Chart | Paragraph | None:
    values = facts.of(name)
    if not np.isfinite(values).any():
        return None
    there = values[np.isfinite(values)]
    if len(there) == len(values) and (there == there[0]).all():
        return Paragraph(f"{title}: {format_number(float(there[0]))} at every step.")
    line = _line(title.lower(), facts.steps, values)
    return Chart(title, description, "", [line], logarithmic=log, note=_sampling_note(facts))


def _line(name: str, xs: Floats, ys: Floats) -> Series:
    points = sampled(xs, ys)
    return Series(name, points.xs.tolist(), points.ys.tolist())


def _sampling_note(facts: Facts) -> str:
    if len(facts.steps) <= MAX_POINTS:
        return ""
    return f"{len(facts.steps)} steps; the chart keeps the minimum and maximum of each bin."
