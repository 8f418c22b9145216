"""Text of 80 columns."""

from __future__ import annotations

import math

import torch

from lossleuth.labs.precision.claims import Claim
from lossleuth.labs.precision.difference_sweep import sweep_of
from lossleuth.labs.precision.effects import Effect
from lossleuth.labs.precision.given_logits import generated
from lossleuth.labs.precision.noise import BELOW, Noise
from lossleuth.labs.precision.ranges import Overflow, Range, overflow_of, range_of
from lossleuth.labs.precision.text_report import (
    WIDTH,
    claims_lines,
    formats_lines,
    noise_lines,
    ranges_lines,
    sums_lines,
    sweep_lines,
)

EFFECTS = [
    Effect("naive", 1e-7, 2e-8, 3e-9, BELOW, 0.5),
    Effect(
        "bfloat16, summed in it", 0.1, 1.5, 0.4, "matters: update, 1.2e+02 times its noise", None
    ),
    Effect("float16", math.nan, math.inf, math.nan, "breaks: not finite", 1000.0, 0.5),
]


def joined(ranges: list[Range], overflows: list[Overflow]) -> str:
    """What is told of ranges, without its line breaks."""
    return " ".join(" ".join(ranges_lines(ranges, overflows)).split())


def test_no_line_is_wider_than_a_terminal() -> None:
    step = generated(34, 10, seed=0)
    ranges = [range_of("Adam's second moment", [torch.tensor([1e-30, 1e30])], scaled=True)]
    overflows = [overflow_of(torch.tensor([1e6]), "float16")]
    lines = [
        *noise_lines(step, Noise(0.1234, 0.5678)),
        *sums_lines(EFFECTS[:1]),
        *formats_lines(EFFECTS),
        *ranges_lines(ranges, overflows),
        *sweep_lines(sweep_of(torch.zeros(34), 0, "float32")),
        *claims_lines([Claim("believed " * 20, "measured " * 30, False)]),
    ]
    assert len(lines) > 30
    assert [line for line in lines if len(line) > WIDTH] == []


def test_a_verdict_is_told_in_a_word_and_explained_once() -> None:
    lines = list(sums_lines(EFFECTS[:1]))
    assert lines[2].split()[-1] == "irrelevant"
    assert sum("below the step's own noise" in line for line in lines) == 1


def test_an_error_that_matters_is_told_whole() -> None:
    lines = list(formats_lines(EFFECTS[1:]))
    assert lines[2].endswith("  matters") and lines[3].endswith("  breaks") and "50%" in lines[3]
    assert "  bfloat16, summed in it: matters: update, 1.2e+02 times its noise." in lines
    assert "  float16: breaks: not finite." in lines
    assert not any("own noise" in line for line in lines)


def test_what_loss_scaling_saves_is_told_of_gradients_only() -> None:
    gradients = range_of("gradients", [torch.tensor([1e-9, 1e-3])], scaled=True)
    weights = range_of("weights", [torch.tensor([1e-9, 1e-3])])
    whole = range_of("gradients", [torch.tensor([1.0])], scaled=True)
    told = joined([gradients, weights], [])
    assert "gradients in float16: times 33554432 leaves 0.00% at 0, not 50.00%" in told
    assert "weights in float16" not in told
    assert "saves nothing" in joined([whole], [])


def test_the_two_kinds_of_overflow_are_told_apart() -> None:
    logits = torch.tensor([12.0]), torch.tensor([1e5]), torch.tensor([1.0])
    told = [joined([], [overflow_of(x, "float16")]) for x in logits]
    assert "overflows in the formula" in told[0]
    assert "overflows as a value" in told[1]
    assert "stays finite" in told[2]
