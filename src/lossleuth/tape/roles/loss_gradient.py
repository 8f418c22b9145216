"""The gradient of a step's loss at tensors on the way to it, by a replay in float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.window import Backward, Window


def gradient_at(
    window: Window, run: Backward, number: int, at: int, cuts: Cuts = Cuts.KEPT
) -> tuple[Tensor, Tensor]:
    """A tensor as it is before an operation, and the loss's gradient with respect to it.

    CannotReplay if the loss does not depend on it.
    """
    tape = window.tape
    roots = [root for root in run.roots if root is not None]
    needed = tape.needed_for(roots, run.at, at)
    made = {o for operation in needed for o in operation.outputs}
    # Other terms of the loss use what was made before; it is constant here.
    given = {i for op in needed for i in op.inputs if i not in made and i not in tape.leaves}
    before = Replay(tape, gradients=False).run(sorted({*given, number}), before=at)
    leaf = before.pop(number).detach().clone().requires_grad_()
    values = {i: v.detach() for i, v in before.items()} | {number: leaf}
    found = Replay(tape, cuts=cuts).run(roots, before=run.at, since=at, leaves=values)
    if not all(root in found for root in roots):
        raise CannotReplay("the loss does not depend on the logits")
    (gradient,) = _gradients(run, [found[root] for root in roots], [leaf])
    return leaf.detach(), gradient


def gradients_at(
    window: Window, run: Backward, numbers: Sequence[int], cuts: Cuts = Cuts.KEPT
) -> list[tuple[Tensor, Tensor]]:
    """The same for many tensors at once, by one replay of the whole step."""
    tape, replay = window.tape, Replay(window.tape, cuts=cuts)
    roots = [root for root in run.roots if root is not None]
    leaves = {i: replay.leaf(tape.value(i)) for i in tape.parameters}
    found = replay.run(roots, before=run.at, leaves=leaves, kept=numbers)
    values = [found[number] for number in numbers]
    if not all(value.requires_grad for value in values):
        raise CannotReplay("the logits do not depend on any parameter")
    gradients = _gradients(run, [found[root] for root in roots], values)
    return [(v.detach(), g) for v, g in zip(values, gradients, strict=True)]


def _gradients(run: Backward, losses: Sequence[Tensor], wanted: Sequence[Tensor]) -> list[Tensor]:
    total = sum((loss.sum() for loss in losses), torch.zeros((), dtype=torch.float64))
    if not total.requires_grad:
        raise CannotReplay("the loss does not depend on the logits")
    found = torch.autograd.grad(total, wanted, allow_unused=True)
    if any(gradient is None for gradient in found):
        raise CannotReplay("the loss does not depend on the logits")
    seed = run.seeds[0] if run.seeds else None
    factor = float(seed) if seed is not None and seed.numel() == 1 else 1.0
    return [factor * gradient.detach() for gradient in found]
