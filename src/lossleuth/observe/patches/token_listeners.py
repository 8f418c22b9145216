"""Listens to embedding lookups and losses: training batches, or evaluations without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lossleuth.observe.steps.observer import Observer
from lossleuth.tape.capture.compiler_marks import never_compile

Saw = Callable[..., None]


def lookup_listeners(observer: Observer) -> tuple[Saw, Saw]:
    """Callbacks for embedding lookups and for losses."""

    @never_compile
    def saw_embedding(input: Any, *_args: Any, **_kwargs: Any) -> None:
        if observer.session.is_ours:
            return
        if torch.is_grad_enabled():
            observer.tokens_embedded(input)
        else:
            observer.recording.evaluations.looked_up()

    @never_compile
    def saw_targets(
        input: Any,
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        *_args: Any,
        **_kwargs: Any,
    ) -> None:
        # Our own probes compute cross-entropies too.
        if observer.session.is_ours:
            return
        if not torch.is_grad_enabled():
            observer.recording.evaluations.compared()
        elif input.requires_grad:
            observer.targets_used(input, target, ignore_index, reduction)

    return saw_embedding, saw_targets
