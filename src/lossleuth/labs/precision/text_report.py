"""The results of `lossleuth precision` as text, 80 columns wide."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence

from lossleuth.labs.precision.claims import Claim
from lossleuth.labs.precision.difference_sweep import Sweep
from lossleuth.labs.precision.effects import Effect
from lossleuth.labs.precision.noise import BELOW, IRRELEVANT, Noise
from lossleuth.labs.precision.ranges import Overflow, Range
from lossleuth.labs.precision.reference import NAME
from lossleuth.labs.precision.step import Step

WIDTH = 80


def noise_lines(step: Step, noise: Noise) -> Iterator[str]:
    """The step, and its own noise."""
    yield from _wrapped(f"{step.source}; errors are measured against {NAME}.")
    yield from _wrapped(
        f"The step's own noise: loss ±{noise.loss:.2g} nats (over rows), update ±"
        f"{noise.update:.2g} of its size (two halves of the batch; {step.moves})."
    )


def sums_lines(effects: Sequence[Effect]) -> Iterator[str]:
    """A table of summation methods."""
    yield "Sum of float32 exponentials"
    yield f"  {'by':<10} {'error':>8} {'loss':>8} {'update':>8} {'ns/number':>9}  verdict"
    for effect in effects:
        yield (
            f"  {effect.name:<10} {effect.error:8.1e} {effect.loss:8.1e} {effect.update:8.1e} "
            f"{_cost(effect.nanoseconds):>9}  {_short(effect.verdict)}"
        )
    yield from _legend("error: of the worst row's sum", effects)


def formats_lines(effects: Sequence[Effect]) -> Iterator[str]:
    """A table of number formats."""
    yield "Softmax and gradient of cross-entropy, computed in"
    yield (f"  {'':<22} {'error':>7} {'loss':>7} {'update':>7} {'to 0':>5} {'ns':>5}  verdict")
    for effect in effects:
        yield (
            f"  {effect.name:<22} {effect.error:7.0e} {effect.loss:7.0e} {effect.update:7.0e} "
            f"{effect.flushed:5.0%} {_cost(effect.nanoseconds):>5}  {_short(effect.verdict)}"
        )
    yield from _legend("error: of the whole gradient of the logits", effects)


def ranges_lines(ranges: Sequence[Range], overflows: Sequence[Overflow]) -> Iterator[str]:
    """Headroom of each class of tensors."""
    yield "Range: doublings left to the largest float16 and bfloat16, and shares lost"
    yield f"  {'':<20} smallest  largest   f16  to 0 small  inf  bf16  to 0"
    for found in ranges:
        half, brain = found.formats
        yield (
            f"  {found.name:<20} {found.smallest:8.1e} {found.largest:8.1e}  {_room(half.room)} "
            f"{half.flushed:5.1%} {half.subnormal:5.0%} {half.overflow:4.0%}  {_room(brain.room)} "
            f"{brain.flushed:5.1%}"
        )
    yield "  small: below float16's smallest normal number, with fewer digits."
    for found in ranges:
        yield from _scaling(found)
    for one in overflows:
        place = {"formula": "overflows in the formula", "value": "overflows as a value"}
        yield from _wrapped(
            f"exp of a logit of {one.largest:.4g} in {one.format} without subtracting the maximum: "
            f"{place.get(one.where, 'stays finite')}; {one.remedy}.",
            "  ",
        )


def _scaling(found: Range) -> list[str]:
    """What loss scaling would save in a class of tensors, if that was computed."""
    half = found.formats[0]
    if math.isnan(half.flushed_scaled):
        return []
    saved = f"times {half.scale:.0f} leaves {half.flushed_scaled:.2%} at 0, not {half.flushed:.2%}"
    if not half.flushed:
        saved = "saves nothing, since nothing underflows"
    return _wrapped(f"Loss scaling, {found.name} in float16: {saved}.", "  ")


def sweep_lines(sweep: Sweep) -> Iterator[str]:
    """The error of finite differences over the step size, and what explains it."""
    yield f"Central differences of one position's loss in {sweep.format}, median entry"
    yield from (f"  {line}"[:WIDTH] for line in sweep.picture().split("\n"))
    small, good = sweep.at(1e-5), sweep.at(1e-2)
    yield from _wrapped(
        f"Rounding and truncation cross at a step of {sweep.crossing:.1g}. At 1e-5 rounding alone "
        f"may be {small.rounding:.0%} of the derivative; {small.median:.0%} is measured, though "
        f"the gradient is right. At 1e-2 rounding and truncation may be "
        f"{good.rounding + good.truncation:.2%}, and {good.median:.3%} is measured.",
        "  ",
    )


def claims_lines(claims: Sequence[Claim]) -> Iterator[str]:
    """Each claim, with the measurement that settles it."""
    for claim in claims:
        yield from _wrapped(f"believed: {claim.believed}")
        yield from _wrapped(f"measured: {claim.measured}", "  ")
        yield f"  {claim.verdict}"


def _legend(error: str, effects: Sequence[Effect]) -> Iterator[str]:
    yield from _wrapped(f"{error}; loss: nats, of the mean; update: share of its size.", "  ")
    for effect in effects:
        if effect.verdict != BELOW:
            yield from _wrapped(f"{effect.name}: {effect.verdict}.", "  ")
    if any(effect.verdict == BELOW for effect in effects):
        yield f"  irrelevant: below the step's own noise, less than {IRRELEVANT:.2f} of it."


def _short(verdict: str) -> str:
    """The verdict in one word; relevant ones are explained below the table."""
    return "irrelevant" if verdict == BELOW else verdict.split(":")[0]


def _cost(nanoseconds: float | None) -> str:
    return "-" if nanoseconds is None else f"{nanoseconds:.1f}"


def _room(room: float) -> str:
    return f"{room:4.0f}" if math.isfinite(room) else "   -"


def _wrapped(sentence: str, indent: str = "") -> list[str]:
    return textwrap.wrap(sentence, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
