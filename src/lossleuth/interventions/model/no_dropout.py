"""Nothing dropped: dropout off in training and evaluation.

It reaches torch's dropout functions, and so its modules, the dropout in its attention, and that
between the layers of its recurrent nets. With `fixed`, only what is not trained drops nothing, such
as a teacher: what comes in asks for no gradient. A mask that a program draws and multiplies with
itself is
not reached. Masks are still drawn, and thrown away, so that all other random numbers stay what they
were; only recurrent nets draw none then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.interventions.intervention import Intervention, Replace

# Those of `torch.nn.functional` have a default for the share that is dropped, and may be in place.
FUNCTIONS = (
    *("dropout", "dropout1d", "dropout2d", "dropout3d"),
    *("alpha_dropout", "feature_alpha_dropout"),
)
PLAIN_FUNCTIONS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
RECURRENT = (nn.RNN, nn.LSTM, nn.GRU)


class NoDropout(Intervention):
    """Keep everything, as when a model is evaluated."""

    def __init__(self, fixed: bool = False) -> None:
        self._fixed = bool(fixed)

    def install(self, replace: Replace) -> None:
        """Patch everything that drops something."""
        for name in FUNCTIONS:
            self._put(replace, F, name, _keeping(getattr(F, name)))
        for name in PLAIN_FUNCTIONS:
            self._put(replace, torch, name, _keeping_plain(getattr(torch, name)))
            in_place = f"{name}_"
            kept = _keeping_plain(getattr(torch, in_place), getattr(torch, name))
            self._put(replace, torch, in_place, kept)
        attention = F.scaled_dot_product_attention
        self._put(replace, F, "scaled_dot_product_attention", _keeping_attention(attention))
        for kind in RECURRENT:
            self._put(replace, kind, "forward", _keeping_between(kind.forward))

    def _put(self, replace: Replace, owner: Any, name: str, keep: Callable[..., Any]) -> None:
        drop = getattr(owner, name)

        @functools.wraps(drop)
        def keep_what_is_fixed(*args: Any, **kwargs: Any) -> Any:
            return (drop if _is_trained((*args, *kwargs.values())) else keep)(*args, **kwargs)

        replace(owner, name, keep_what_is_fixed if self._fixed else keep)


def _is_trained(arguments: Iterable[Any]) -> bool:
    """Whether gradients flow through any of these."""
    for argument in arguments:
        if isinstance(argument, Tensor) and argument.requires_grad:
            return True
        if isinstance(argument, nn.Module) and any(p.requires_grad for p in argument.parameters()):
            return True
    return False


def _keeping(drop: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(drop)
    def keep(
        input: Tensor, p: float = 0.5, training: bool | None = None, inplace: bool = False
    ) -> Tensor:
        # Alpha dropout is off unless asked for, all others are on.
        asked = {} if training is None else {"training": training}
        with torch.no_grad():
            drop(input.detach(), p, **asked)
        return input

    return keep


def _keeping_plain(
    drop: Callable[..., Tensor], draw: Callable[..., Tensor] | None = None
) -> Callable[..., Tensor]:
    """Masks are drawn by another function, where this one works in place."""

    @functools.wraps(drop)
    def keep(input: Tensor, p: float, train: bool) -> Tensor:
        with torch.no_grad():
            (draw or drop)(input.detach(), p, train)
        return input

    return keep


def _keeping_attention(attention: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(attention)
    def keep(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        if dropout_p:
            with torch.no_grad():
                attention(query, key, value, attn_mask, dropout_p, *args, **kwargs)
        return attention(query, key, value, attn_mask, 0.0, *args, **kwargs)

    return keep


def _keeping_between(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def keep(module: Any, *args: Any, **kwargs: Any) -> Any:
        own, module.dropout = module.dropout, 0.0
        try:
            return forward(module, *args, **kwargs)
        finally:
            module.dropout = own

    return keep
