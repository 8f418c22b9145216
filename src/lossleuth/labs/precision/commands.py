"""Carries out `lossleuth precision`, once torch may be imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from lossleuth.labs.precision.claims import claims_of_kahan, kahan_step
from lossleuth.labs.precision.difference_sweep import sweep_of
from lossleuth.labs.precision.effects import format_effects, sum_effects
from lossleuth.labs.precision.from_checkpoint import next_step
from lossleuth.labs.precision.given_logits import from_file, generated
from lossleuth.labs.precision.noise import noise_of
from lossleuth.labs.precision.ranges import NARROW, overflow_of, range_of
from lossleuth.labs.precision.recorded import recorded_lines, recorded_ranges
from lossleuth.labs.precision.reference import NAME, truth_of
from lossleuth.labs.precision.step import Step
from lossleuth.labs.precision.text_report import (
    claims_lines,
    formats_lines,
    noise_lines,
    ranges_lines,
    sums_lines,
    sweep_lines,
)
from lossleuth.number_formats import FORMATS
from lossleuth.record import strict_json
from lossleuth.reference.train.checkpoint import FILE_NAME as CHECKPOINT
from lossleuth.types.errors import BadInput

PARTS = ("sums", "formats", "range", "differences")
CASES = ("kahan",)

Show = Callable[[str], object]
# A part of the answer: its name, its values and its text.
Part = tuple[str, Any, Iterator[str]]


def run_precision(
    source: Path | None,
    *,
    case: str | None,
    targets: Path | None,
    vocabulary: int,
    rows: int,
    dtype: str,
    seed: int,
    only: Sequence[str],
    as_json: bool,
    show: Show,
) -> None:
    """Carry out `lossleuth precision`."""
    _check(source, case, targets, only, dtype)
    if source is not None and case is None and _is_record(source):
        parts = [_of_record(source)]
    else:
        step = _step(source, case, targets, vocabulary, rows, seed)
        parts = list(parts_of(step, only or PARTS, dtype))
        if case is not None:
            claims = claims_of_kahan(step)
            values = [asdict(claim) | {"verdict": claim.verdict} for claim in claims]
            parts.append(("claims", values, claims_lines(claims)))
    if as_json:
        found = {name: _plain(value) for name, value, _ in parts}
        show(strict_json.dumps({"reference": NAME} | found))
        return
    for number, (_, _, lines) in enumerate(parts):
        if number:
            show("")
        for line in lines:
            show(line)


def parts_of(step: Step, wanted: Sequence[str], dtype: str) -> Iterator[Part]:
    """The requested parts of the answer, preceded by the step's noise."""
    truth = truth_of(step.logits_NV.numpy(), step.targets_N.numpy())
    noise = noise_of(step, truth)
    yield "step", {"source": step.source, "noise": noise}, noise_lines(step, noise)
    if "sums" in wanted:
        sums = sum_effects(step, truth, noise)
        yield "sums", sums, sums_lines(sums)
    if "formats" in wanted:
        formats = format_effects(step, truth, noise)
        yield "formats", formats, formats_lines(formats)
    if "range" in wanted:
        gradient_NV = torch.from_numpy(truth.gradient_NV.astype("float64"))
        classes = step.classes or {
            "logits": [step.logits_NV],
            "gradient of logits": [gradient_NV],
        }
        ranges = [
            range_of(name, tensors, scaled=name.startswith("gradient"))
            for name, tensors in classes.items()
        ]
        overflows = [overflow_of(step.logits_NV, name) for name in NARROW]
        lines = ranges_lines(ranges, overflows)
        yield "range", {"classes": ranges, "overflow": overflows}, lines
    if "differences" in wanted:
        row = truth.typical_row
        sweep = sweep_of(step.logits_NV[row], int(step.targets_N[row]), dtype)
        yield "differences", sweep, sweep_lines(sweep)


def _of_record(source: Path) -> Part:
    ranges = recorded_ranges(source)
    return "range", ranges, recorded_lines(source, ranges)


def _step(
    source: Path | None,
    case: str | None,
    targets: Path | None,
    vocabulary: int,
    rows: int,
    seed: int,
) -> Step:
    if case is not None:
        return kahan_step()
    if source is None:
        return generated(vocabulary, rows, seed)
    if source.suffix == ".npy":
        return from_file(source, targets, rows, seed)
    return next_step(source, rows)


def _check(
    source: Path | None,
    case: str | None,
    targets: Path | None,
    only: Sequence[str],
    dtype: str,
) -> None:
    """Refuse options that conflict, before computing anything."""
    if case is not None and case not in CASES:
        raise BadInput(f"a case about precision ({', '.join(CASES)})", case, "see `lossleuth demo`")
    if case is not None and source is not None:
        raise BadInput("a case or a source of logits", f"--case {case} and {source}", "give one")
    for part in only:
        if part not in PARTS:
            raise BadInput(f"one of {', '.join(PARTS)} for --only", repr(part), "change --only")
    if dtype not in FORMATS:
        raise BadInput(f"one of {', '.join(FORMATS)} for --dtype", repr(dtype), "change --dtype")
    if targets is not None and (source is None or source.suffix != ".npy"):
        raise BadInput(
            "--targets with logits in an .npy file", f"{source or 'no file'}", "leave it out"
        )
    if source is not None and not source.exists():
        raise BadInput(
            "a run directory, a checkpoint or an .npy file of logits",
            f"nothing at {source}",
            "check the path",
        )


def _is_record(source: Path) -> bool:
    """Whether a directory is a watched run and not one of the reference trainer."""
    return source.is_dir() and not (source / CHECKPOINT).exists()


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value
