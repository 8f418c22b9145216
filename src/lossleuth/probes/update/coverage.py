"""Do the optimizers hold the parameters that the loss depends on?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import Parameter

from lossleuth.findings.update import Coverage, Uncovered
from lossleuth.probes.probe import Probe
from lossleuth.probes.update.owners import Holder, holder_of
from lossleuth.tape.replay.distance import norm
from lossleuth.tape.window import Backward, Gradients, Window


def coverage(window: Window) -> Coverage | None:
    """Compare them; None without a backward pass or an update.

    Where updates are made by hand, what moved stands for what an optimizer holds.
    """
    # Gradients that are asked for beside others, as for a penalty, are not what is used.
    runs = [run for run in window.backwards if not run.returned] or window.backwards
    tape = window.tape
    held = {id(p): p for update in window.updates for p in update.parameters}
    by_hand = not window.updates
    if by_hand and runs:
        known = [n for n in runs[-1].after if n in tape.leaves]
        held = {id(tape.leaves[n]): tape.leaves[n] for n in known if _moved(window, n)}
    if not runs or not held:
        return None
    if runs[-1].returned and not all(n in runs[-1].after for n in tape.parameters):
        # Of what nobody asked for, nothing is known.
        return None
    # A gradient may be asked for of what the step has computed, as for a penalty.
    after = {number: g for number, g in _added(runs).items() if number in tape.leaves}
    first_use = _first_uses(window)
    missing, lost, whole = [], 0.0, 0.0
    for number, gradient in after.items():
        leaf = tape.leaves[number]
        size = 0.0 if gradient is None else norm([gradient]) ** 2
        whole += size
        if id(leaf) not in held and gradient is not None:
            lost += size
            missing.append(_described(window, number, first_use, size**0.5))
    used = {id(leaf) for leaf in tape.leaves.values()}
    asking = {id(leaf) for leaf in tape.parameters.values()}
    reached = {id(tape.leaves[n]) for n, g in after.items() if g is not None}
    frozen = [
        _described(window, number, first_use, 0.0)
        for number, leaf in tape.leaves.items()
        if id(leaf) in held and id(leaf) not in asking and leaf.is_floating_point()
    ]
    unused = [p for key, p in held.items() if key not in used and p.requires_grad]
    idle = [p for key, p in held.items() if key not in reached and p.requires_grad]
    shapes = sorted(tuple(p.shape) for p in idle)
    wanted = sorted(tuple(tape.leaves[n].shape) for n in after if id(tape.leaves[n]) not in held)
    same = bool(missing) and all(shape in shapes for shape in wanted)
    share = lost / whole if whole else 0.0
    resting = [t for t in tape.leaves.values() if _is_weight(t) and id(t) not in asking]
    still = {id(t): t.numel() for t in resting}
    moving = {id(t): t.numel() for t in tape.parameters.values()}
    at_rest = sum(still.values()) / (sum(still.values()) + sum(moving.values()) or 1)
    thin = _thin_share(tape.parameters.values(), resting)
    largest = max(
        (n for n, g in after.items() if g is not None and id(tape.leaves[n]) not in held),
        key=lambda n: tape.leaves[n].numel(),
        default=None,
    )
    holder = Holder(is_registered=False) if largest is None else holder_of(tape.leaves[largest])
    return Coverage(
        missing=tuple(missing),
        missing_share=share,
        frozen=tuple(frozen),
        unused=len(unused),
        held=len(held),
        unused_match_missing=same,
        frozen_share=at_rest,
        thin_share=thin,
        missing_registered=holder.is_registered,
        missing_hidden_at=holder.hidden_at,
        by_hand=by_hand,
    )


def _moved(window: Window, number: int) -> bool:
    """Whether a parameter is no longer what it was when the step used it."""
    before, now = window.tape.value(number).detach(), window.tape.leaves[number].detach()
    return before.shape == now.shape and not torch.equal(before, now)


def _is_weight(leaf: Tensor) -> bool:
    return isinstance(leaf, Parameter) and leaf.is_floating_point()


def _thin_share(trained: Iterable[Tensor], frozen: Iterable[Tensor]) -> float:
    """The share of trained elements in low-rank adapters beside frozen matrices.

    An adapter is a pair of thin matrices that are as thin as each other; a thin one alone, such as
    the last layer of a classifier, is none.
    """
    matrices = [tuple(t.flatten(1).shape) for t in frozen if t.dim() > 1]
    whole = max((min(shape) for shape in matrices), default=0)
    lengths = {length for shape in matrices for length in shape}
    thin = []
    total = 0
    for t in trained:
        total += t.numel()
        if t.dim() > 1 and 2 * min(t.shape) < whole and max(t.flatten(1).shape) in lengths:
            thin.append((min(t.flatten(1).shape), t.numel()))
    ranks = Counter(rank for rank, _ in thin)
    return sum(size for rank, size in thin if ranks[rank] > 1) / (total or 1)


def _added(runs: list[Backward]) -> Gradients:
    """What the step added to gradients: gradients outside optimizers are never cleared."""
    found: Gradients = {}
    for run in runs:
        for number, gradient in run.added().items():
            before = found.get(number)
            if gradient is not None and before is not None:
                gradient = before + gradient
            found[number] = before if gradient is None else gradient
    return found


def _first_uses(window: Window) -> dict[int, object]:
    found: dict[int, object] = {}
    for operation in window.tape.operations:
        for number in operation.inputs:
            found.setdefault(number, operation)
    return found


def _described(
    window: Window, number: int, first_use: dict[int, object], gradient: float
) -> Uncovered:
    operation = first_use.get(number)
    place = getattr(operation, "place", None)
    file, line = (None, None) if place is None else (place.file, place.line)
    leaf = window.tape.leaves[number]
    module = getattr(operation, "module", None)
    return Uncovered(
        name=window.name_of(number),
        elements=leaf.numel(),
        file=file,
        line=line,
        module=module,
        gradient=gradient,
        key=id(leaf),
    )


PROBE = Probe(Coverage, lambda a: coverage(a.window))
