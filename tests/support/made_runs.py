"""Run directories made of given numbers, without running a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lossleuth.findings.finding import Finding
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.verdict import Verdict
from lossleuth.record.write import RecordWriter
from lossleuth.types.change import Change, Effect
from lossleuth.types.judgement import Judgement, Status, Where, Wrongness

COLUMNS = ["grad_rms", "update_ratio", "update_rms"]
EFFECT = Effect(Change.of("scale_lr", factor=0.1), 0.5, 0.02, 3, 8, 2.5, 2.0, 3.0)


def record(
    directory: Path,
    losses: Sequence[float],
    *,
    parameters: Sequence[str] = ("wte", "head"),
    header: dict[str, Any] | None = None,
    scalars: dict[str, Any] | None = None,
    events: Sequence[tuple[str, dict[str, Any]]] = (),
    every: int = 1,
) -> Path:
    """A record with these losses; per-parameter statistics at every `every`-th step."""
    known = {"script": "train.py", "arguments": ["--size", "a b"], "python": "3.11"}
    writer = RecordWriter.create(directory, known | (header or {}), warn=print)
    if parameters:
        writer.parameters(list(parameters), [4] * len(parameters), COLUMNS)
    for step, loss in enumerate(losses):
        cells = None
        if parameters and step % every == 0:
            cells = np.full((len(parameters), len(COLUMNS)), 1e-3 * (1 + step % 7))
        writer.step({"step": step, "loss": loss, "lr": 1e-3, **(scalars or {})}, cells)
    for kind, data in events:
        writer.event(kind, data)
    writer.end({"how": "exit"})
    return directory


def record_of_losses(directory: Path, losses: Sequence[float], true: Sequence[float] = ()) -> Path:
    """One with nothing but these losses, and the true losses of its first steps."""
    writer = RecordWriter.create(directory, {}, print)
    for step, loss in enumerate(losses):
        writer.step({"step": step, "loss": loss}, None)
    for step, loss in enumerate(true):
        writer.event("true_loss", found_on(step, true_loss(loss))[1])
    writer.end({"how": "test"})
    return directory


def true_losses(*pairs: tuple[int, float], vocabulary: int = 8) -> list[tuple[str, dict[str, Any]]]:
    """Recorded steps with their true losses, as events."""
    return [found_on(step, true_loss(loss, vocabulary)) for step, loss in pairs]


def true_loss(loss: float, vocabulary: int | None = 8) -> TrueLoss:
    """The true loss of a step."""
    return TrueLoss(loss, 64, vocabulary, logits_std=1.0)


def found_on(step: int, *findings: Finding) -> tuple[str, dict[str, Any]]:
    """A recorded step with these findings, as an event."""
    return "tape", RecordedStep(step, findings).plain()


def verdict(status: str = "proven", script: str = "train.py", line: int | None = 1) -> Verdict:
    """A verdict whose judgements have every status."""
    found = {
        "label_offset": Judgement(
            Status.PROVEN,
            "Targets are at offset 2 in 100% of 64 positions; 1 is expected.",
            Where(script, line, "head"),
            Wrongness("offset of the targets", 2.0, 1.0, 0.0),
            remedy="Shift once.",
            cure=Change.of("follow_cross_entropy"),
        ),
        "lr_too_high": Judgement(
            Status.PROVEN,
            "A tenth of the rate is better by 0.5 nats.",
            Where(script, line),
            Wrongness("loss", math.inf, 2.0, math.nan),
            EFFECT,
            "Lower the rate.",
            cure=EFFECT.change,
        ),
        "clip_too_tight": Judgement(Status.BENIGN, "100% are clipped", harm=EFFECT),
        "overflow": Judgement(Status.REFUTED, "all of 8 losses are finite"),
        "batch_leak": Judgement(Status.UNTESTED, "no step with tokens was recorded"),
        "ascent": Judgement(Status.ERRORED, "ZeroDivisionError: of ours"),
    }
    there = ["label_offset", "lr_too_high", "clip_too_tight"] if status == "proven" else []
    judgements = found if there else {k: v for k, v in found.items() if k not in there}
    return Verdict(status, judgements, there, 8, 1.5, ("the loss goes from 3.000 to 2.500",))
