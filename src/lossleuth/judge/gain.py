"""What a challenge gained beyond doubt, and what that may mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lossleuth.types.challenge import Bias
from lossleuth.types.change import Effect


@dataclass(frozen=True)
class Gain:
    """The trial of a challenge, and whether it speaks against the run."""

    # Completes "it does better ...".
    words: str
    bias: Bias
    effect: Effect
    counts: bool

    @property
    def sentence(self) -> str:
        """For people."""
        tail = "" if self.counts else f"; such a gain says little: {self.bias.value}"
        return (
            f"it does better {self.words}, by {self.effect.nats:.2f} ± {self.effect.error:.2f} "
            f"nats in {self.effect.steps} steps{tail}"
        )

    def as_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "words": self.words,
            "bias": self.bias.name.lower(),
            "counts": self.counts,
            "trial": self.effect.as_json(),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Gain:
        """What `as_json` made."""
        bias, effect = Bias[stored["bias"].upper()], Effect.from_json(stored["trial"])
        return cls(str(stored["words"]), bias, effect, bool(stored["counts"]))
