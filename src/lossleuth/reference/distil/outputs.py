"""What a model says at every position, and what is inside it, whoever made the model.

The reference model is looked into by hooks that last one call; Hugging Face models are asked;
of any other module only the logits are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lossleuth.reference.train.model import LanguageModel, rotate
from lossleuth.types.errors import BadInput


@dataclass
class Outputs:
    """Logits, and where asked for the state after each block and where each head looks."""

    logits_BTV: Tensor
    hidden: list[Tensor] = field(default_factory=list)
    attention: list[Tensor] = field(default_factory=list)


def look(
    model: nn.Module, tokens_BT: Tensor, *, hidden: bool = False, attention: bool = False
) -> Outputs:
    """Run a model and gather what was asked for.

    >>> from lossleuth.reference.train.model import ModelShape
    >>> model = LanguageModel(ModelShape(vocabulary=10, context=8, layers=2, heads=2, width=16))
    >>> outputs = look(model, torch.zeros(3, 8, dtype=torch.long), hidden=True, attention=True)
    >>> outputs.logits_BTV.shape, outputs.hidden[1].shape, outputs.attention[0].shape
    (torch.Size([3, 8, 10]), torch.Size([3, 8, 16]), torch.Size([3, 2, 8, 8]))
    """
    if isinstance(model, LanguageModel):
        with _watched(model, hidden=hidden, attention=attention) as (states, looks):
            logits_BTV = model(tokens_BT)
        return Outputs(logits_BTV, states, looks)
    if is_host_model(model):
        found = model(
            input_ids=tokens_BT,
            output_hidden_states=hidden,
            output_attentions=attention,
            use_cache=False,
        )
        return Outputs(
            found.logits,
            list(found.hidden_states[1:]) if hidden else [],
            list(found.attentions) if attention else [],
        )
    if hidden or attention:
        raise BadInput(
            "a model whose inside is known: the reference model or one of Hugging Face",
            f"{type(model).__name__}",
            "use --hidden-weight 0, --attention-weight 0 and --contrastive-weight 0",
        )
    return Outputs(logits_of(model, tokens_BT))


def logits_of(model: nn.Module, tokens_BT: Tensor) -> Tensor:
    """Logits of any module that gives them, or an object that has them."""
    if is_host_model(model):
        return look(model, tokens_BT).logits_BTV
    found = model(tokens_BT)
    logits_BTV = found if isinstance(found, Tensor) else getattr(found, "logits", None)
    if not isinstance(logits_BTV, Tensor) or logits_BTV.shape[:2] != tokens_BT.shape:
        shape = tuple(logits_BTV.shape) if isinstance(logits_BTV, Tensor) else type(found).__name__
        raise BadInput(
            f"logits of shape {(*tokens_BT.shape, 'V')} from {type(model).__name__}",
            f"{shape}",
            "return a row of logits for every position",
        )
    return logits_BTV


def is_host_model(model: nn.Module) -> bool:
    """Whether a module is a model of Hugging Face.

    >>> is_host_model(nn.Linear(1, 1))
    False
    """
    return hasattr(getattr(model, "config", None), "model_type")


class LogitsOnly(nn.Module):
    """A model as the trainer's evaluation knows one: tokens in, a tensor of logits out.

    `columns` put the logits of another vocabulary in order; `ids` translate the tokens.
    """

    def __init__(
        self, model: nn.Module, ids: Tensor | None = None, columns: Tensor | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("ids", ids, persistent=False)
        self.register_buffer("columns", columns, persistent=False)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Logits in the order of the vocabulary that asks."""
        if isinstance(self.ids, Tensor):
            tokens_BT = self.ids[tokens_BT]
        logits_BTV = logits_of(self.model, tokens_BT)
        return logits_BTV[..., self.columns] if isinstance(self.columns, Tensor) else logits_BTV


@contextmanager
def _watched(
    model: LanguageModel, *, hidden: bool, attention: bool
) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Lists that fill while the model runs."""
    states: list[Tensor] = []
    looks: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: Any, state_BTD: Tensor) -> None:
        states.append(state_BTD)

    handles = []
    try:
        for block in model.blocks:
            if hidden:
                handles.append(block.register_forward_hook(keep))
            if attention:
                projection = block.attention.qkv  # type: ignore[union-attr]  # blocks are Blocks
                handles.append(projection.register_forward_hook(_keep_attention(model, looks)))  # type: ignore[union-attr]  # blocks are Blocks
        yield states, looks
    finally:
        for handle in handles:
            handle.remove()


def _keep_attention(
    model: LanguageModel, looks: list[Tensor]
) -> Callable[[nn.Module, Any, Tensor], None]:
    """Attention again from queries and keys: the fused kernel never says where it looked."""
    heads, width = model.shape.heads, model.shape.head_width

    def keep(_module: nn.Module, _inputs: Any, qkv_BTE: Tensor) -> None:
        B, T, _ = qkv_BTE.shape
        qk_BTGK = qkv_BTE[..., : 2 * model.shape.width].reshape(B, T, 2 * heads, width)
        if model.rotation_C2P is not None:
            qk_BTGK = rotate(qk_BTGK, model.rotation_C2P[:T])
        q_BHTK, k_BHTK = qk_BTGK.transpose(1, 2).float().chunk(2, dim=1)
        scores_BHTT = q_BHTK @ k_BHTK.transpose(2, 3) / math.sqrt(width)
        later = torch.ones(T, T, dtype=torch.bool, device=qkv_BTE.device).triu(1)
        looks.append(scores_BHTT.masked_fill(later, -math.inf).softmax(-1))

    return keep
