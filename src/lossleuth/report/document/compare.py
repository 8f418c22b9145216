"""Two runs side by side: what differs in their settings, and where their ways part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lossleuth.examiner.load_evidence import settings_of
from lossleuth.record.read import Record
from lossleuth.report.document.blocks import (
    Answer,
    Block,
    Chart,
    Document,
    HeatMap,
    Paragraph,
    Section,
    Series,
    Table,
)
from lossleuth.report.document.facts import Matrix, matrix_of
from lossleuth.report.document.numbers import shown
from lossleuth.report.document.sampling import sampled
from lossleuth.run_directory import RunDirectory

# What is compared, in the order in which a step makes it.
MADE = ("batch", "loss", "grad_norm_before_clip", "grad_norm", "lr")
WORDS = {
    "batch": "the batch",
    "loss": "the loss",
    "grad_norm_before_clip": "the gradient before clipping",
    "grad_norm": "the gradient",
    "lr": "the learning rate",
}


def comparison(first: Path, second: Path) -> Document:
    """Both runs: where they part first, settings that differ, curves, gradient flow."""
    names = _names(first, second)
    with Record.open(RunDirectory(first).look) as a, Record.open(RunDirectory(second).look) as b:
        sections = [
            Section("", _parting(a, b)),
            Section("Settings that differ", [_settings(a, b, names)]),
            Section("Curves", _curves(a, b, names)),
            Section("Gradient flow", _flows(a, b, names)),
        ]
    return Document(f"lossleuth: {names[0]} and {names[1]}", f"{first} · {second}", sections)


def _names(first: Path, second: Path) -> tuple[str, str]:
    """What to call them: their folders' names, unless these are the same."""
    if first.name != second.name:
        return first.name or "first", second.name or "second"
    return str(first), str(second)


def _parting(a: Record, b: Record) -> list[Block]:
    both = min(len(a), len(b))
    if not both:
        return [Answer("cannot_tell", "One of the two has no step: there is nothing to compare.")]
    found: dict[str, int] = {}
    for name in MADE:
        if name in a.scalar_names and name in b.scalar_names:
            step = _first_difference(a.values(name)[:both], b.values(name)[:both])
            if step is not None:
                found[name] = step
    if not found:
        return [Answer("healthy", f"Their first {both} steps are the same to the last bit.")]
    step = min(found.values())
    what = next(WORDS[name] for name in MADE if found.get(name) == step)
    row = [[WORDS[name], shown(found[name])] for name in MADE if name in found]
    return [
        Answer("suspected", f"They part at step {int(a.steps[step])}, where {what} differs first."),
        Table("First step at which they differ", ["what", "step"], row),
    ]


def _first_difference(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    for index, (x, y) in enumerate(zip(a, b, strict=True)):
        if x != y and not (_is_nan(x) and _is_nan(y)):
            return index
    return None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _settings(a: Record, b: Record, names: tuple[str, str]) -> Block:
    left, right = _flat(a), _flat(b)
    rows = [
        [key, str(left.get(key, "absent")), str(right.get(key, "absent"))]
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key)
    ]
    if not rows:
        return Paragraph("None that was recorded.")
    return Table("", ["setting", *names], rows)


def _flat(record: Record) -> dict[str, Any]:
    """Everything that was set, under one name each."""
    known: dict[str, Any] = {}
    header = {
        key: value
        for key, value in record.header.items()
        if key not in ("process", "started", "parent")
    }
    declared = settings_of(record.events("settings"))
    packages = [e.data.get("packages") for e in record.events("provenance")]
    _flatten("", header, known)
    _flatten("", declared, known)
    _flatten("package", packages[-1] if packages else {}, known)
    known["parameters"] = sum(record.parameter_sizes.values())
    if "lr" in record.scalar_names and len(record):
        known["first learning rate"] = float(record.series("lr")[0])
    return known


def _flatten(prefix: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), item, into)
    elif isinstance(value, list | tuple) and any(isinstance(x, Mapping) for x in value):
        for index, item in enumerate(value):
            _flatten(f"{prefix}[{index}]", item, into)
    else:
        into[prefix] = value


def _curves(a: Record, b: Record, names: tuple[str, str]) -> list[Block]:
    charts: list[Block] = []
    titles = {"loss": "Loss", "grad_norm": "Gradient norm", "lr": "Learning rate"}
    for name, title in titles.items():
        series = [
            _line(label, record, name)
            for label, record in zip(names, (a, b), strict=True)
            if name in record.scalar_names
        ]
        if series:
            logarithmic = name == "grad_norm"
            told = f"{title} of both runs, step by step."
            charts.append(Chart(title, told, "", series, logarithmic=logarithmic))
    return charts


def _line(label: str, record: Record, name: str) -> Series:
    points = sampled(record.steps.astype(np.float64), record.series(name))
    return Series(label, points.xs.tolist(), points.ys.tolist())


def _flows(a: Record, b: Record, names: tuple[str, str]) -> list[Block]:
    found: list[Block] = []
    for label, record in zip(names, (a, b), strict=True):
        if "grad_rms" in record.columns:
            found.append(_map(label, matrix_of(record, "grad_rms")))
    return found or [Paragraph("Neither run has gradients of parameters.")]


def _map(label: str, matrix: Matrix) -> HeatMap:
    told = "Root mean square of each parameter's gradient per element, over the steps."
    rows, values = list(matrix.parameters), matrix.values.tolist()
    return HeatMap(label, told, "gradient RMS", rows, list(matrix.steps), values, matrix.note)
