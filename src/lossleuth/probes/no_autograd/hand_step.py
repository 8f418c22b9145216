"""A step without autograd: forward, backward and update all written by hand on tensors.

What is overwritten are the parameters; a number that depends on them is the loss; and among the
tensors that an update is made of is the gradient that the program worked out. All of it is on the
tape, so the true gradient of that number can be laid beside it, in float64 on both sides.

Which number is the loss, and in which scale gradients are taken, no one says: it is the number
whose gradient most parameters follow, all with the same factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from lossleuth.findings.no_autograd import HandStep
from lossleuth.probes.no_autograd.hand_fault_line import fault_place
from lossleuth.probes.no_autograd.hand_parts import (
    Truth,
    gradient_of,
    parameters_of,
    scalars_of,
    values_of,
)
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.tape import Tape
from lossleuth.tape.window import Window

# Gradients that differ by more than this share are different. Both sides are in float64, so this is
# far above rounding. Picked by hand.
MAX_RELATIVE_ERROR = 1e-6
# Updates that are made on the recorded batch along either gradient, and their lengths as multiples
# of the program's own. Picked by hand.
UPDATES_FOLLOWED = 12
STEP_LENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01)
# A gradient with less than this share of the whole is a rounded zero. Picked by hand.
MIN_GRADIENT_SHARE = 1e-9
# Numbers that are tried as the loss: each costs a replay. Picked by hand.
MAX_SCALARS = 12
# Where no gradient is right, a number counts as the loss if at least so many parameters follow a
# gradient with at least this cosine. Picked by hand.
MIN_PARAMETERS, MIN_COSINE = 3, 0.1


@dataclass(frozen=True)
class _Match:
    """A tensor that an update is made of, as a multiple of the true gradient and a rest."""

    number: int
    factor: float
    rest: float


def hand_step(window: Window, names: dict[int, str]) -> HandStep | None:
    """Compare hand-written gradients with the true ones; None if no loss is found."""
    tape = window.tape
    parameters = parameters_of(tape)
    if not parameters:
        return None
    made = values_of(tape, sorted({i for p in parameters for i in p.made_of}))
    best: tuple[int, Truth, float, dict[int, list[_Match]]] | None = None
    for scalar in scalars_of(tape, parameters)[:MAX_SCALARS]:
        try:
            truth = gradient_of(tape, scalar, [p.number for p in parameters])
        except CannotReplay:
            continue
        matches = {
            p.number: [m for i in p.made_of if (m := _match(i, made, truth.of.get(p.number)))]
            for p in parameters
            if truth.of.get(p.number) is not None
        }
        factor, count = _common_factor(matches)
        if best is None or count > best[0]:
            best = (count, truth, factor, matches)
    if best is None:
        return None
    count, truth, factor, matches = best
    if not count and not _is_likely(truth, matches, made):
        return None
    return _compared(window, truth, factor, matches, made, names)


def _is_likely(truth: Truth, matches: dict[int, list[_Match]], made: dict[int, Tensor]) -> bool:
    """Whether a number may be the loss though no parameter follows its gradient exactly."""
    if len(matches) < MIN_PARAMETERS:
        return False
    dot = size = whole = 0.0
    for number, found in matches.items():
        true = truth.of[number]
        best = max(
            found, key=lambda m: abs(m.factor) / max(m.rest, MAX_RELATIVE_ERROR), default=None
        )
        if best is not None:
            value = made[best.number]
            dot += float((value * true).sum())
            size += float(value.norm()) ** 2
        whole += float(true.norm()) ** 2
    return size > 0 and whole > 0 and abs(dot) > MIN_COSINE * math.sqrt(size * whole)


def _compared(
    window: Window,
    truth: Truth,
    factor: float,
    matches: dict[int, list[_Match]],
    made: dict[int, Tensor],
    names: dict[int, str],
) -> HandStep:
    tape, makers = window.tape, window.tape.makers()
    used: dict[int, int] = {}
    wrong: list[int] = []
    gap = size = 0.0
    total = math.hypot(*(float(truth.of[number].norm()) for number in matches))
    for number, found in matches.items():
        true = truth.of[number]
        distances = {m.number: float((made[m.number] / factor - true).norm()) for m in found}
        if not distances:
            continue
        parallel = [m.number for m in found if m.rest < MAX_RELATIVE_ERROR]
        # A multiple of the truth counts as it was made first; later ones have a rate in them.
        nearest = min(distances, key=lambda i: distances[i])
        used[number] = nearest
        if parallel and distances[nearest] > MAX_RELATIVE_ERROR * float(true.norm()):
            used[number] = min(parallel, key=lambda i: makers[i].number if i in makers else -1)
        whole = float(true.norm())
        if distances[used[number]] > max(MAX_RELATIVE_ERROR * whole, MIN_GRADIENT_SHARE * total):
            wrong.append(number)
        gap, size = math.hypot(gap, distances[used[number]]), math.hypot(size, whole)
    operation = makers[truth.loss]
    place = None
    if wrong:
        place = fault_place(tape, truth, [used[i] for i in wrong], MAX_RELATIVE_ERROR)
    right = [i for i in used if i not in wrong]
    name_by_number = {i: names.get(i, f"a tensor of shape {tape.layouts[i].shape}") for i in used}
    own = along = None
    if wrong:
        own, along = _followed(window, truth, used, factor)
    return HandStep(
        loss=truth.value,
        loss_place=None if operation.place is None else str(operation.place),
        loss_operation=operation.name,
        right=tuple(name_by_number[i] for i in right),
        wrong=tuple(name_by_number[i] for i in wrong),
        error=gap / size if size else math.nan,
        floor=MAX_RELATIVE_ERROR,
        place=place,
        followed=UPDATES_FOLLOWED if own is not None else 0,
        along_own=own,
        along_true=along,
    )


def _match(number: int, made: dict[int, Tensor], true: Tensor | None) -> _Match | None:
    value = made.get(number)
    if value is None or true is None or value.shape != true.shape:
        return None
    size, whole = float(value.norm()), float(true.norm())
    if not size or not whole or not math.isfinite(size + whole):
        return None
    factor = float((value * true).sum()) / whole**2
    return _Match(number, factor, float((value - factor * true).norm()) / size)


def _common_factor(matches: dict[int, list[_Match]]) -> tuple[float, int]:
    """The factor that most parameters' gradients have, and how many that are; else 1."""
    factors = [
        (number, m.factor)
        for number, found in matches.items()
        for m in found
        if m.rest < MAX_RELATIVE_ERROR and m.factor
    ]
    best, most = 1.0, 0
    for _, factor in factors:
        count = len({n for n, f in factors if abs(f / factor - 1) < MAX_RELATIVE_ERROR})
        # Of factors that as many have, the one nearest to 1 is the gradient itself.
        nearer = count == most and abs(math.log(abs(factor))) < abs(math.log(abs(best)))
        if count > most or nearer:
            best, most = factor, count
    return best, most


def _followed(
    window: Window, truth: Truth, used: dict[int, int], factor: float
) -> tuple[float | None, float | None]:
    """The batch's loss after some updates along the program's gradient, and along the true one.

    Each is given the best of several lengths: one that is too long says nothing of its direction.
    """
    length = _update_length(window.tape, list(used))
    if not length or not math.isfinite(length):
        return None, None
    try:
        own, true = (
            [_loss_along(window.tape, truth, used, by, share * length) for share in STEP_LENGTHS]
            for by in (factor, None)
        )
    except CannotReplay:
        return None, None
    best_own, best_true = min(own, key=_or_worst), min(true, key=_or_worst)
    # Where the true gradient leads to no number, there is nothing to compare with.
    return (best_own, best_true) if math.isfinite(best_true) else (None, None)


def _or_worst(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf


def _loss_along(
    tape: Tape, truth: Truth, used: dict[int, int], factor: float | None, length: float
) -> float:
    """Plain gradient descent, the first step so long; without a factor, along the true gradient."""
    numbers = list(used)
    at = {i: tape.value(i).detach().double().clone() for i in numbers}
    loss, rate = math.nan, 0.0
    for _ in range(UPDATES_FOLLOWED + 1):
        if factor is None:
            found = gradient_of(tape, truth.loss, numbers, at)
            loss, given = found.value, found.of
        else:
            made = values_of(tape, [truth.loss, *used.values()], at)
            loss = float(made[truth.loss])
            given = {i: made[used[i]] / factor for i in numbers}
        size = math.hypot(*(float(d.norm()) for d in given.values()))
        if not size or not math.isfinite(size):
            break
        rate = rate or length / size
        at = {i: at[i] - rate * given[i] if i in given else at[i] for i in numbers}
    return loss


def _update_length(tape: Tape, numbers: list[int]) -> float:
    """The length of this step's update."""
    after = {p.number: p.after for p in parameters_of(tape)}
    other = values_of(tape, [after[i] for i in numbers if after[i] != i])
    moved = []
    for number in numbers:
        now = other.get(after[number], tape.leaves[number])
        moved.append((now.double() - tape.value(number).double()).norm())
    return math.hypot(*map(float, moved))


PROBE = Probe(HandStep, lambda a: hand_step(a.window, a.names), without_autograd=True)
