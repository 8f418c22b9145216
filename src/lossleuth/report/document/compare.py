"""Compare two runs: the first step that differs, settings, curves."""

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
from lossleuth.report.document.matrix import Matrix, matrix_of
from lossleuth.report.document.sampling import sampled
from lossleuth.run_directory import RunDirectory

# What is compared, in the order in which a step computes it.
STEP_ORDER = ("batch", "loss", "grad_norm_before_clip", "grad_norm", "lr")
WORDS = {
    "batch": "the batch",
    "loss": "the loss",
    "grad_norm_before_clip": "the gradient before clipping",
    "grad_norm": "the gradient",
    "lr": "the learning rate",
}


def comparison(first: Path, second: Path) -> Document:
    """Where two runs first differ, their settings, curves and gradient flow."""
    names = _names(first, second)
    with Record.open(RunDirectory(first).look) as a, Record.open(RunDirectory(second).look) as b:
        sections = [
            Section("", _divergence(a, b)),
            Section("Settings that differ", [_settings(a, b, names)]),
            Section("Curves", _curves(a, b, names)),
            Section("Gradient flow", _gradient_flow(a, b, names)),
        ]
    return Document(f"lossleuth: {names[0]} and {names[1]}", f"{first} · {second}", sections)


def _names(first: Path, second: Path) -> tuple[str, str]:
    """The names of their folders; their whole paths if those are equal."""
    if first.name != second.name:
        return first.name or "first", second.name or "second"
    return str(first), str(second)


def _divergence(a: Record, b: Record) -> list[Block]:
    both = min(len(a), len(b))
    if not both:
        return [Answer("cannot_compare", "One run has no step: there is nothing to compare.")]
    first_steps: dict[str, int] = {}
    for name in STEP_ORDER:
        if name in a.scalar_names and name in b.scalar_names:
            index = _first_difference(a.values(name)[:both], b.values(name)[:both])
            if index is not None:
                first_steps[name] = int(a.steps[index])
    if not first_steps:
        return [Answer("identical", f"The first {both} steps are bit-identical.")]
    # Of equals, min takes the first in the order of a step.
    first = min(first_steps, key=lambda name: first_steps[name])
    rows = [[WORDS[name], str(step)] for name, step in first_steps.items()]
    return [
        Answer(
            "different", f"The runs first differ at step {first_steps[first]}, in {WORDS[first]}."
        ),
        Table("First step that differs", ["", "step"], rows),
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
        return Paragraph("No recorded setting differs.")
    return Table("", ["setting", *names], rows)


def _flat(record: Record) -> dict[str, Any]:
    """All settings by their dotted names."""
    settings: dict[str, Any] = {}
    header = {
        key: value
        for key, value in record.header.items()
        if key not in ("process", "started", "parent")
    }
    declared = settings_of(record.events("settings"))
    packages = [e.data.get("packages") for e in record.events("provenance")]
    _flatten("", header, settings)
    _flatten("", declared, settings)
    _flatten("package", packages[-1] if packages else {}, settings)
    settings["parameters"] = sum(record.parameter_sizes.values())
    if "lr" in record.scalar_names and len(record):
        settings["initial learning rate"] = float(record.series("lr")[0])
    return settings


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
            description = f"{title} of both runs at each step."
            charts.append(Chart(title, description, "", series, logarithmic=logarithmic))
    return charts


def _line(label: str, record: Record, name: str) -> Series:
    points = sampled(record.steps.astype(np.float64), record.series(name))
    return Series(label, points.xs.tolist(), points.ys.tolist())


def _gradient_flow(a: Record, b: Record, names: tuple[str, str]) -> list[Block]:
    maps: list[Block] = []
    for label, record in zip(names, (a, b), strict=True):
        if "grad_rms" in record.columns:
            maps.append(_heat_map(label, matrix_of(record, "grad_rms")))
    return maps or [Paragraph("Neither run recorded gradients.")]


def _heat_map(label: str, matrix: Matrix) -> HeatMap:
    description = "RMS of each parameter's gradient at each step."
    rows, values = list(matrix.parameters), matrix.values.tolist()
    return HeatMap(
        label, description, "gradient RMS", rows, list(matrix.steps), values, matrix.note
    )
