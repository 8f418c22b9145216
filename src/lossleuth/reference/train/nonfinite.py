"""Which tensor was the first to stop being finite."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lossleuth.reference.train.data import Batch
from lossleuth.reference.train.loss import token_losses


def first_bad_tensor(model: nn.Module, batches: list[Batch]) -> str:
    """Name the first non-finite tensor in the order in which a step computes them.

    Parameters, then every module's output in the forward pass, then the loss, then gradients in
    the order of the backward pass. Reads what is there and repeats only the forward pass.
    """
    return (
        bad_parameter(model)
        or _in_forward(model, batches)
        or _in_gradients(model)
        or "a value, no longer there,"
    )


def bad_parameter(model: nn.Module) -> str | None:
    """Name the first parameter that is not finite."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"parameter {name}"
    return None


def _in_forward(model: nn.Module, batches: list[Batch]) -> str | None:
    found: list[str] = []
    names = {module: name for name, module in model.named_modules()}

    def note(module: nn.Module, _inputs: Any, output: Any) -> None:
        # Inner modules finish first, so the first note is the innermost.
        if isinstance(output, Tensor) and not output.isfinite().all() and not found:
            found.append(f"output of {names[module] or 'the model'}")

    handles = [module.register_forward_hook(note) for module in names]
    try:
        with torch.no_grad():
            for batch in batches:
                device = next(model.parameters()).device
                losses = token_losses(
                    model(batch.inputs_BT.to(device)), batch.targets_BT.to(device)
                )
                if found:
                    return found[0]
                if not losses.isfinite().all():
                    return "the loss"
    finally:
        for handle in handles:
            handle.remove()
    return None


def _in_gradients(model: nn.Module) -> str | None:
    """The first non-finite gradient, or their norm where only that overflows."""
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    for name in reversed(gradients):
        if not gradients[name].isfinite().all():
            return f"gradient of {name}"
    if torch.nn.utils.get_total_norm(gradients.values()).isfinite():
        return None
    sizes = {name: gradient.abs().max().item() for name, gradient in gradients.items()}
    largest = max(sizes, key=sizes.__getitem__)
    return f"norm of the gradient (largest entry {sizes[largest]:.3g}, in {largest})"
