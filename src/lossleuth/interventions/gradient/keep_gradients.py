"""Gradients used as the backward pass left them: neither clipped nor wiped in between.

With `norm`, they are clipped at that, whatever the program clips them at.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from lossleuth.interventions.gradient.clip_gradients import ClipGradients
from lossleuth.interventions.intervention import Intervention, Replace, parameters_of
from lossleuth.tape.window import Backward, Window


class KeepGradients(Intervention):
    """Undo every change of gradients between backward pass and update."""

    def __init__(self, norm: float | None = None) -> None:
        self._clip = None if norm is None else ClipGradients(norm)
        self._known: list[Tensor] = []
        self._left: list[Tensor | None] = []
        # What the program would have used. It is put back after the update: what is wiped before
        # that may not be cleared again, and must not pile up.
        self._given: list[tuple[Tensor, Tensor | None]] = []

    def install(self, replace: Replace) -> None:
        """Note when a gradient scaler unscales: that change is right."""
        scaler = torch.amp.GradScaler
        original = scaler.unscale_

        @functools.wraps(original)
        def unscale(grad_scaler: Any, optimizer: torch.optim.Optimizer) -> None:
            original(grad_scaler, optimizer)
            if grad_scaler.is_enabled():
                self._unscale(1 / float(grad_scaler.get_scale()), optimizer)

        replace(scaler, "unscale_", unscale)

    def _unscale(self, factor: float, optimizer: torch.optim.Optimizer) -> None:
        updated = {id(p) for p in parameters_of(optimizer)}
        for parameter, gradient in zip(self._known, self._left, strict=False):
            if gradient is not None and id(parameter) in updated:
                gradient.mul_(factor)

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        """Learn what will be updated."""
        self._known = [*self._known, *parameters_of(optimizer)]

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Remember the gradients."""
        self._left = [None if p.grad is None else p.grad.detach().clone() for p in self._known]

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Restore the remembered gradients."""
        updated = {id(p) for p in parameters_of(optimizer)}
        for parameter, gradient in zip(self._known, self._left, strict=False):
            if gradient is not None and id(parameter) in updated:
                self._given.append((parameter, parameter.grad))
                parameter.grad = gradient
        if self._clip is not None:
            self._clip.before_update(optimizer)

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Leave what the program had left."""
        # The first that was noted is the program's, where one optimizer has followed another.
        for parameter, gradient in reversed(self._given):
            parameter.grad = gradient
        self._given = []
