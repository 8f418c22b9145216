"""The gradients of a replayed step, computed once for all probes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.tape import Tape
from lossleuth.tape.window import Backward, Gradients, Window, dense

# Backward passes whose gradients are kept at a time; more are kept as long as all of them have no
# more numbers than this (256 MB in float64). Picked by hand.
MIN_BACKWARDS_KEPT = 4
MAX_NUMBERS_KEPT = 1 << 25


@dataclass(frozen=True)
class Replayed:
    """Gradients of parameters and of tensors between them and the loss.

    In float64 where the replay was; else as torch gave them.
    """

    gradients: Gradients
    # Whether the program cut off (detached) a gradient somewhere.
    has_cuts: bool
    # Whether the loss is finite.
    is_finite: bool = True


def shared_gradients(window: Window, run: Backward, *, float64: bool) -> Replayed:
    """The replayed gradient of a backward pass, with the program's own cuts; also where hooks are.

    Cached in the window.
    """
    key, kept = (id(run), float64), window.replayed
    if key not in kept:
        try:
            kept[key] = _replayed(window.tape, run, float64, Cuts.KEPT, window.between(run))
        except CannotReplay as reason:
            kept[key] = reason
        while len(kept) > 2 * MIN_BACKWARDS_KEPT and _numbers(kept.values()) > MAX_NUMBERS_KEPT:
            del kept[next(iter(kept))]
    found = kept[key]
    if isinstance(found, CannotReplay):
        raise found
    assert isinstance(found, Replayed)
    return found


def _numbers(kept: Iterable[Replayed | CannotReplay]) -> int:
    found = [replayed.gradients.values() for replayed in kept if isinstance(replayed, Replayed)]
    return sum(g.numel() for gradients in found for g in gradients if g is not None)


def opened_gradients(window: Window, run: Backward) -> Gradients:
    """The gradient without the program's cuts; the same one if there are none."""
    kept = shared_gradients(window, run, float64=True)
    if not kept.has_cuts:
        return kept.gradients
    return replayed_gradients(window.tape, run, float64=True, cuts=Cuts.OPENED)


def replayed_gradients(
    tape: Tape,
    run: Backward,
    *,
    float64: bool,
    cuts: Cuts = Cuts.KEPT,
    between: Sequence[int] = (),
) -> Gradients:
    """The replayed gradient of a backward pass, for all parameters on the tape.

    Also for the tensors `between` parameters and loss, where asked for.
    """
    return _replayed(tape, run, float64, cuts, between).gradients


def _replayed(
    tape: Tape, run: Backward, float64: bool, cuts: Cuts, between: Sequence[int]
) -> Replayed:
    replay = Replay(tape, float64=float64, cuts=cuts)
    with torch.inference_mode(mode=False):
        leaves = {i: replay.leaf(tape.value(i)) for i in run.before}
    roots = [root for root in run.roots if root is not None]
    if len(roots) != len(run.roots):
        raise CannotReplay("the program differentiated something computed before recording began")
    made = replay.run(roots, before=run.at, leaves=leaves, kept=between)
    outputs = [made[root] for root in roots]
    if not any(output.requires_grad for output in outputs):
        raise CannotReplay("no recorded operation leads from a parameter to the loss")
    differentiable = [
        (output, _seed(output, seed))
        for output, seed in zip(outputs, run.seeds, strict=True)
        if output.requires_grad
    ]
    leaves |= {i: made[i] for i in between if i in made and made[i].requires_grad}
    found = torch.autograd.grad(
        [output for output, _ in differentiable],
        list(leaves.values()),
        [seed for _, seed in differentiable],
        allow_unused=True,
    )
    gradients: Gradients = {
        number: dense(gradient) if float64 and gradient is not None else gradient
        for number, gradient in zip(leaves, found, strict=True)
    }
    finite = all(bool(torch.isfinite(output).all()) for output in outputs)
    return Replayed(gradients, replay.has_cuts, finite)


def _seed(output: Tensor, seed: Tensor | None) -> Tensor | None:
    """The gradient that an output is given; None stands for a single 1.

    Given one that is spelled out, torch loads half of its compiler to look at its shape.
    """
    if seed is None or (seed.numel() == output.numel() == 1 and float(seed) == 1):
        return None
    return seed.to(output.dtype)
