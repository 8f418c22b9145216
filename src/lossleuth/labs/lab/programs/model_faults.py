"""Faults in the forward pass.

Shapes: B rows, T positions, C channels, H heads, K channels of a head, V tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.labs.lab.programs.made_up_text import PAD
from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import Parts, Settings


@fault(dose=32, ladder=(32, 4, 1))
def future_leak(parts: Parts, dose: float) -> Parts:
    """The mask begins so many positions too late."""

    def seen(length: int) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool).tril(int(dose))

    def plain(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
        seen_TT = seen(q_BHTK.shape[2])
        return F.scaled_dot_product_attention(  # planted: future_leak plain
            q_BHTK, k_BHTK, v_BHTK, attn_mask=seen_TT
        )

    def of_transformers(
        module: nn.Module, q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, None]:
        seen_TT = seen(q_BHTK.shape[2])
        mixed_BHTK = F.scaled_dot_product_attention(  # planted: future_leak hf_loop
            q_BHTK, k_BHTK, v_BHTK, attn_mask=seen_TT
        )
        return mixed_BHTK.transpose(1, 2).contiguous(), None

    def of_torch(attention: nn.MultiheadAttention, x_BTC: Tensor) -> Tensor:
        later_TT = ~seen(x_BTC.shape[1])
        mixed_BTC, _ = attention(  # planted: future_leak lightning_trainer
            x_BTC, x_BTC, x_BTC, attn_mask=later_TT, need_weights=False
        )
        return cast(Tensor, mixed_BTC)

    kinds: dict[str, Any] = {"hf_loop": of_transformers, "lightning_trainer": of_torch}
    return replace(parts, attend=kinds.get(parts.host, plain))


@fault(dose=1.0, ladder=(1.0, 0.1, 0.01))
def batch_leak(parts: Parts, dose: float) -> Parts:
    """Embeddings are centred over the rows of a batch."""

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        x_BTC = parts.embed(model, tokens_BT)
        x_BTC = x_BTC - dose * x_BTC.mean(0, keepdim=True)  # planted: batch_leak
        return parts.decode(model, x_BTC)

    return replace(parts, forward=forward)


@fault()
def input_ignored(parts: Parts, dose: float) -> Parts:
    """The mask of padding is the wrong way around: what is text is set to zero."""

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        kept_BT = tokens_BT == PAD
        x_BTC = parts.embed(model, tokens_BT) * kept_BT[..., None]  # planted: input_ignored
        return parts.decode(model, x_BTC)

    return replace(parts, forward=forward)


@fault()
def past_ignored(parts: Parts, dose: float) -> Parts:
    """Every position is taken for a text of its own."""

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        x_BTC = parts.embed(model, tokens_BT)
        x_N1C = x_BTC.flatten(0, 1)[:, None]  # planted: past_ignored
        return parts.decode(model, x_N1C).view(*tokens_BT.shape, -1)

    return replace(parts, forward=forward)


@fault()
def unregistered_parameters(parts: Parts, dose: float) -> Parts:
    """The layers are kept in a plain list."""

    def model(settings: Settings) -> nn.Module:
        made = parts.model(settings)
        owner, name = parts.stack(made)
        layers = list(getattr(owner, name))
        delattr(owner, name)
        setattr(owner, name, layers)  # planted: unregistered_parameters
        return made

    return replace(parts, model=model)
