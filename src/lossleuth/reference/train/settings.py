"""Every hyper-parameter of the reference trainer: an option, a TOML key, one line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lossleuth.settings import setting
from lossleuth.types.errors import BadInput

LOSS_KERNELS = ("auto", "lossleuth", "torch")
# What runs did that were saved before a setting was there.
BEFORE = {"loss_kernel": "torch"}


@dataclass(frozen=True)
class TrainSettings:
    """What a training run is made of.

    >>> TrainSettings(context=64).window_stride
    64
    """

    data: tuple[str, ...] = setting((), "text files; none: Python's own documentation")
    tokenizer: str = setting("char", "how text is split", choices=("char", "word", "bpe"))
    vocab_size: int | None = setting(None, "tokens in the vocabulary; none: by the data", minimum=1)
    validation_share: float = setting(
        0.1, "share of the tokens held back, by document", above=0, maximum=0.5
    )
    context: int = setting(128, "positions in a window", minimum=2)
    stride: int | None = setting(None, "tokens between windows; none: context", minimum=1)
    batch: int = setting(16, "windows in a micro-batch", minimum=1)
    accumulation: int = setting(1, "micro-batches in a step", minimum=1)
    layers: int = setting(4, "transformer blocks", minimum=1)
    heads: int = setting(4, "attention heads", minimum=1)
    width: int = setting(128, "width of the model", minimum=1)
    positions: str = setting("rotary", "how order is known", choices=("learned", "rotary"))
    tied: bool = setting(True, "use the embedding as output matrix too")
    dropout: float = setting(0.0, "share of activations dropped", minimum=0, maximum=0.9)
    steps: int = setting(600, "updates to make", minimum=1)
    lr: float = setting(3e-3, "highest learning rate", above=0)
    warmup: int = setting(40, "steps to reach it", minimum=0)
    lr_floor: float = setting(0.1, "share of it left at the end", minimum=0, maximum=1)
    weight_decay: float = setting(0.1, "decay of matrices (AdamW)", minimum=0)
    beta1: float = setting(0.9, "Adam's memory of the gradient", minimum=0, maximum=0.99999)
    beta2: float = setting(0.95, "Adam's memory of its square", minimum=0, maximum=0.99999)
    epsilon: float = setting(1e-8, "Adam's epsilon", above=0)
    clip: float = setting(1.0, "largest norm of the whole gradient; 0: no clipping", minimum=0)
    precision: str = setting("float32", "dtype of matrix products", choices=("float32", "bfloat16"))
    compile: bool = setting(False, "compile the model (slow start, faster steps)")
    loss_kernel: str = setting(
        "auto",
        "who computes the loss; auto: we do on the CPU, else torch",
        choices=LOSS_KERNELS,
    )
    device: str = setting("auto", "where to train", choices=("auto", "cpu", "cuda"))
    seed: int = setting(0, "seed of weights, order, dropout and split", minimum=0)
    evaluate_every: int = setting(200, "steps between evaluations", minimum=1)
    checkpoint_every: int = setting(200, "steps between checkpoints", minimum=1)
    bad_steps_allowed: int = setting(5, "non-finite steps before the run stops", minimum=0)

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise BadInput(
                "a width that the heads divide",
                f"width {self.width} for {self.heads} heads",
                "change --width or --heads",
            )
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise BadInput(
                "an even width per head for rotary positions",
                f"{self.width // self.heads}",
                "change --width or --heads, or use --positions learned",
            )

    @property
    def window_stride(self) -> int:
        """Tokens between the starts of two windows."""
        return self.stride or self.context


def as_it_was(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Saved settings, with what was done at the time where the setting is newer than the run.

    >>> as_it_was({"steps": 5})
    {'loss_kernel': 'torch', 'steps': 5}
    """
    return {**BEFORE, **saved}
