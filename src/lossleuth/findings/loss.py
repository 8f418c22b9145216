"""Findings about the loss."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class TrueLoss(Finding):
    """The true loss of a recorded step in nats per supervised token, and what it is compared to."""

    loss: float | None
    count: int
    vocabulary: int | None
    # Standard deviation of the logits over all positions and classes.
    logits_std: float | None
    # Norm of its gradient for all that is trained, where the logits are all the same.
    gradient: float | None = None
