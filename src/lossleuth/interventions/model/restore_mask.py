"""Make attention causal.

That is every call of torch's attention, as a function or as `MultiheadAttention`, without a mask
and with as many queries as keys, more than one: also that of an encoder, and of a decoder to its
encoder if both happen to be as long. Attention that a program writes out is not reached.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.interventions.intervention import Intervention, Replace


class RestoreMask(Intervention):
    """Let every position see only itself and earlier ones."""

    def install(self, replace: Replace) -> None:
        """Patch attention.

        `MultiheadAttention` calls the function only if nobody wants its weights, and both it and
        the encoder layer have a faster way for evaluation, so these are given a mask themselves.
        """
        attention = F.scaled_dot_product_attention
        several_heads = nn.MultiheadAttention.forward
        layer = nn.TransformerEncoderLayer.forward

        @functools.wraps(attention)
        def causal_attention(
            query: Tensor,
            key: Tensor,
            value: Tensor,
            attn_mask: Tensor | None = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            **kwargs: Any,
        ) -> Tensor:
            if attn_mask is None and _is_square(query, key, -2):
                is_causal = True
            return attention(query, key, value, attn_mask, dropout_p, is_causal, **kwargs)

        @functools.wraps(several_heads)
        def causal_heads(
            module: nn.MultiheadAttention,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            key_padding_mask: Tensor | None = None,
            need_weights: bool = True,
            attn_mask: Tensor | None = None,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            if attn_mask is None and _is_square(query, key, _time_axis(module, query)):
                length = query.shape[_time_axis(module, query)]
                attn_mask = _mask(length, query, key_padding_mask)
            return several_heads(
                module,
                query,
                key,
                value,
                key_padding_mask,
                need_weights,
                attn_mask,
                *args,
                **kwargs,
            )

        @functools.wraps(layer)
        def causal_layer(
            module: nn.TransformerEncoderLayer,
            src: Tensor,
            src_mask: Tensor | None = None,
            src_key_padding_mask: Tensor | None = None,
            is_causal: bool = False,
        ) -> Tensor:
            axis = _time_axis(module.self_attn, src)
            if src_mask is None and _is_square(src, src, axis):
                src_mask = _mask(src.shape[axis], src, src_key_padding_mask)
            return layer(module, src, src_mask, src_key_padding_mask, is_causal)

        replace(F, "scaled_dot_product_attention", causal_attention)
        replace(nn.MultiheadAttention, "forward", causal_heads)
        replace(nn.TransformerEncoderLayer, "forward", causal_layer)


def _is_square(query: Tensor, key: Tensor, axis: int) -> bool:
    if query.is_nested or key.is_nested:
        # Rows of several lengths, which only torch's own evaluation makes.
        return False
    return query.shape[axis] == key.shape[axis] > 1


def _time_axis(module: nn.MultiheadAttention, query: Tensor) -> int:
    return 1 if module.batch_first and query.dim() == 3 else 0


def _mask(length: int, like: Tensor, padding: Tensor | None) -> Tensor:
    """True where attention is not allowed; in the type of the other mask, if there is one."""
    later = torch.ones(length, length, dtype=torch.bool, device=like.device).triu(1)
    if padding is None or padding.dtype == torch.bool:
        return later
    return torch.zeros(later.shape, dtype=padding.dtype, device=like.device).masked_fill(
        later, float("-inf")
    )
