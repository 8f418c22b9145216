"""The true loss: over the whole validation set, per token, unsmoothed, with its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lossleuth.reference.train.data import Span, Tokens, Windows, validation_batches
from lossleuth.reference.train.loss import token_losses
from lossleuth.reference.train.precision import autocast
from lossleuth.reference.train.tokenizer import Tokenizer


@dataclass(frozen=True)
class Evaluation:
    """Mean cross-entropy in nats per token and what follows from it."""

    loss: float
    standard_error: float
    tokens: int
    bytes: int | None
    unknown_share: float = 0.0
    """Share of the targets that the vocabulary lacks."""

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that is beyond a float, never capped; NaN stays NaN.

        >>> round(Evaluation(loss=1.5, standard_error=0.1, tokens=10, bytes=20).perplexity, 3)
        4.482
        """
        return math.inf if self.loss >= 709 else math.exp(self.loss)

    @property
    def bits_per_byte(self) -> float | None:
        """Comparable between tokenizers; None where unknown tokens hide bytes or there are none.

        >>> evaluation = Evaluation(loss=1.5, standard_error=0.1, tokens=10, bytes=20)
        >>> round(evaluation.bits_per_byte, 3)
        1.082
        """
        return None if not self.bytes else self.loss * self.tokens / math.log(2) / self.bytes

    def sentence(self) -> str:
        """All of it in one line.

        >>> print(Evaluation(math.nan, math.nan, tokens=10, bytes=20).sentence())
        loss nan: what the model computes is not finite (10 tokens)
        """
        if not math.isfinite(self.loss):
            return (
                f"loss {self.loss}: what the model computes is not finite ({self.tokens:,} tokens)"
            )
        return (
            f"loss {self.loss:.4f} ± {self.standard_error:.4f} nats/token, "
            f"perplexity {self.perplexity:.2f}, bits per byte {self._shown_bits()} "
            f"({self.tokens:,} tokens, {self.unknown_share:.2%} unknown)"
        )

    def _shown_bits(self) -> str:
        if self.bytes is None:
            return "undefined (unknown tokens)"
        bits = self.bits_per_byte
        return "undefined (the targets stand for 0 bytes)" if bits is None else f"{bits:.4f}"


def evaluate(
    model: nn.Module,
    tokens: Tokens,
    windows: Windows,
    *,
    batch: int,
    target_bytes: int | None,
    unknown_share: float = 0.0,
    precision: str = "float32",
    kernel: str = "auto",
) -> Evaluation:
    """Weigh every window by its tokens; the error is over windows, which are nearly independent."""
    sums = window_sums(model, tokens, windows, batch=batch, precision=precision, kernel=kernel)
    loss = math.fsum(sums) / windows.targets
    residuals = sums - loss * windows.lengths
    k = len(residuals)
    spread = float(np.sqrt((residuals**2).sum() * k / (k - 1))) if k > 1 else math.nan
    error = spread / windows.targets
    return Evaluation(loss, error, windows.targets, target_bytes, unknown_share)


def window_sums(
    model: nn.Module,
    tokens: Tokens,
    windows: Windows,
    *,
    batch: int,
    precision: str = "float32",
    kernel: str = "auto",
) -> NDArray[np.float64]:
    """Cross-entropy summed over the targets of each window: two models can be compared by these."""
    device = next(model.parameters()).device
    sums: list[float] = []
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode(), autocast(device, precision):
            for part in validation_batches(tokens, windows, batch):
                logits_BTV = model(part.inputs_BT.to(device))
                losses_BT = token_losses(logits_BTV, part.targets_BT.to(device), kernel)
                sums.extend(losses_BT.double().sum(dim=1).tolist())
    finally:
        model.train(was_training)
    return np.array(sums)


def targets_of(tokens: Tokens, spans: Sequence[Span]) -> Tokens:
    """The tokens that are predicted in some spans."""
    return np.concatenate([tokens[s.start + 1 : s.stop + 1] for s in spans])


def bytes_of_targets(tokens: Tokens, spans: Sequence[Span], tokenizer: Tokenizer) -> int | None:
    """UTF-8 bytes that the targets stand for, or None where some are unknown."""
    targets = targets_of(tokens, spans)
    if tokenizer.unknown_share(targets):
        return None
    return int(tokenizer.bytes_per_token[targets].sum())
