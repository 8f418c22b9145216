"""The backward of a function outside torch against differences of the function's own values.

One random direction through all entries shows most faults. A block, a tail or a row that is left
out may be a small part of the whole: so each input has a direction of its own, and within it the
entries that are given exactly 0, the first, the middle and the last of each axis, and some rows.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.gradcheck.check import MAX_STEP_SHARE, Along, Outcome, check_along
from lossleuth.gradcheck.problems import Problem, Vector, array, given_problem, shifted, size
from lossleuth.tape.replay.outside import gradients_again, run_again
from lossleuth.tape.tape import FunctionCall, Tape

# Rows of an input that have a direction of their own: all, or so many of them. Picked by hand.
MAX_ROWS = 12
# Processor seconds for the parts of one call; the whole is measured in any case. Picked by hand.
MAX_SECONDS = 1.0
# An error of so many times its bound is beyond doubt: as for `wrong_backward`.
SURE = 30.0


@dataclass(frozen=True)
class Measured:
    """The error of a backward as a share of the true slope, its floor, and where it was measured.

    `part` is None where that is everything.
    """

    error: float
    floor: float
    part: str | None = None


def measured_gradient(
    tape: Tape,
    call: FunctionCall,
    inputs: Mapping[int, Tensor],
    gave: Mapping[int, Tensor],
    seconds: float = MAX_SECONDS,
) -> Measured | None:
    """The worst part of what a backward gave; None where values are too noisy to tell."""
    before, seeds = run_again(tape, call, inputs), _seeds(call)
    problem = _problem(tape, call, inputs, gave, before, seeds)
    ends = time.process_time() + seconds
    slopes = check_along(problem, _directions(problem))
    whole, uphill = next(slopes), next(slopes)
    if whole.outcome is Outcome.CANNOT_TELL:
        whole = uphill
    failed = [along for along in (whole, uphill) if along.outcome is Outcome.FAIL]
    with suppress(Exception):
        # The backward is the program's own, and may refuse to be run again.
        failed += _along_unmoved(tape, call, inputs, problem, before, seeds, ends)
    for along in slopes:
        if along.outcome is Outcome.FAIL:
            failed.append(along)
        if time.process_time() > ends:
            break
    if failed:
        return _measured(max(failed, key=_plainness))
    return None if whole.outcome is Outcome.CANNOT_TELL else _measured(whole)


def _plainness(along: Along) -> tuple[bool, bool, bool, float]:
    """How plainly a slope shows an error: beyond doubt, of nothing at all, whole, large.

    Of those that leave doubt, the one that leaves least.
    """
    gap = abs(along.claimed - along.true)
    if gap <= SURE * along.bound:
        return False, False, False, gap / along.bound
    nothing = along.claimed == 0 or (bool(along.name) and abs(along.true) <= along.bound)
    return True, nothing, not along.name, gap


def _measured(along: Along) -> Measured:
    unit = abs(along.true) if abs(along.true) > along.bound else abs(along.claimed)
    if along.name:
        # A part may have hardly any slope by chance.
        unit = max(abs(along.true), abs(along.claimed))
    gap = abs(along.claimed - along.true)
    return Measured(gap / (unit or 1.0), along.bound / (unit or 1.0), along.name or None)


def _seeds(call: FunctionCall) -> dict[int, Tensor]:
    """The gradients that the results were given."""
    given = call.given or []
    found = {i: given[at] for at, i in call.outputs.items() if at < len(given)}
    return {i: seed for i, seed in found.items() if seed is not None}


def _problem(
    tape: Tape,
    call: FunctionCall,
    inputs: Mapping[int, Tensor],
    gave: Mapping[int, Tensor],
    before: Mapping[int, Tensor],
    seeds: Mapping[int, Tensor],
) -> Problem:
    """The results times these gradients, as a function of the inputs; `before` are the results."""
    wanted = list(gave)

    def loss(*moved: Tensor) -> float:
        made = run_again(tape, call, {**inputs, **dict(zip(wanted, moved, strict=True))})
        # The change alone: what does not move adds no rounding.
        return sum(
            float(((made[i].double() - before[i].double()) * seed.double()).sum())
            for i, seed in seeds.items()
        )

    problem = given_problem(
        loss, [gave[i] for i in wanted], {_named(call, i): inputs[i].detach() for i in wanted}
    )
    # A small change of a rounded result goes in steps: between two of them, it seems to be none.
    steps = [_rounding(before[i], seed) for i, seed in seeds.items()]
    return replace(problem, noise=math.hypot(*steps))


def _along_unmoved(
    tape: Tape,
    call: FunctionCall,
    inputs: Mapping[int, Tensor],
    problem: Problem,
    before: Mapping[int, Tensor],
    seeds: Mapping[int, Tensor],
    ends: float,
) -> list[Along]:
    """Where the backward gives a gradient for entries of the results that no input moves."""
    _, uphill = itertools.islice(_directions(problem), 2)
    wanted = [call.inputs[int(name.split()[1]) - 1] for name in problem.names]
    moves = zip(problem.values, uphill[1], strict=True)
    moved = [shifted(value, direction, MAX_STEP_SHARE / 4) for value, direction in moves]
    made = run_again(tape, call, {**inputs, **dict(zip(wanted, moved, strict=True))})
    found = []
    for position, number in sorted(call.outputs.items()):
        still = made[number] == before[number]
        if number not in seeds or not still.any() or still.all():
            continue
        if time.process_time() > ends:
            break
        own = {number: seeds[number] * still}
        given = gradients_again(tape, call, inputs, own)
        gave = {i: given.get(i, torch.zeros_like(inputs[i])).double() for i in wanted}
        some = _problem(tape, call, inputs, gave, before, own)
        # The second direction: it goes up with all that was given.
        directions = list(itertools.islice(_directions(some), 2))[1:]
        words = f"{_described(still.numpy())} of result {position + 1}, which no input moves"
        if any(gradient.any() for gradient in gave.values()):
            named = [(words, direction) for _, direction in directions]
            found += [a for a in check_along(some, named) if a.outcome is Outcome.FAIL]
    return found


def _rounding(result: Tensor, seed: Tensor) -> float:
    """What rounding of a result's elements makes of their sum with these weights."""
    if not result.is_floating_point():
        return 0.0
    weighted = result.double() * seed.double() * (torch.finfo(result.dtype).eps / 2)
    return float(torch.linalg.vector_norm(weighted))


def _named(call: FunctionCall, number: int) -> str:
    return f"input {call.inputs.index(number) + 1}"


def _directions(problem: Problem) -> Iterator[tuple[str, tuple[Vector, ...]]]:
    random = np.random.default_rng(0)
    anywhere = tuple(
        np.asarray(random.uniform(-1.0, 1.0, np.shape(array(v))) * (math.sqrt(3) * size(v)))
        for v in problem.values
    )
    yield "", anywhere
    # A mean over many entries hardly moves where signs are mixed: its slope drowns in rounding.
    pairs = zip(anywhere, problem.claimed, strict=True)
    whole = tuple(np.where(c == 0, d, np.copysign(d, c)) for d, c in pairs)
    yield "", whole
    for which, direction in enumerate(whole):
        if len(whole) > 1:
            yield f"all of {problem.names[which]}", _only(whole, which, direction)
    for which, direction in enumerate(whole):
        given_none = problem.claimed[which] == 0
        if 0 < np.count_nonzero(given_none) < given_none.size:
            words = f"{_described(given_none)} of {problem.names[which]}, which it gives 0"
            # Nobody knows which way is up there: mixed signs, and all the same.
            for way in (direction, np.abs(direction)):
                yield words, _only(whole, which, np.where(given_none, way, 0.0))
    for which, direction in enumerate(whole):
        for words, part in _parts(direction, random):
            yield f"{words} of {problem.names[which]}", _only(whole, which, part)


def _described(chosen: NDArray[np.bool_]) -> str:
    """Which entries are chosen, in words.

    >>> _described(np.array([[False, False, True], [False, False, True]]))
    '1 of 3 columns (the first is column 2)'
    """
    table = chosen.reshape(-1, chosen.shape[-1]) if chosen.ndim else chosen.reshape(1, 1)
    for axis, name in ((1, "row"), (0, "column")):
        full = np.asarray(table.all(axis))
        if full.any() and np.count_nonzero(full) * table.shape[axis] == np.count_nonzero(table):
            first = int(np.argmax(full))
            words = f"{np.count_nonzero(full)} of {len(full)} {name}s"
            return f"{words} (the first is {name} {first})"
    return f"{np.count_nonzero(table)} of {table.size} entries"


def _parts(direction: Vector, random: np.random.Generator) -> Iterator[tuple[str, Vector]]:
    """Parts of a direction: ends and middle of each axis, then rows."""
    shape = direction.shape
    for axis in reversed(range(len(shape))):
        name = "columns" if axis == len(shape) - 1 else f"entries along axis {axis}"
        for words, index in _ends(shape[axis]):
            kept = np.zeros_like(direction)
            at = tuple(slice(None) if a != axis else index for a in range(len(shape)))
            kept[at] = direction[at]
            yield f"the {words} of {shape[axis]} {name}", kept
    if len(shape) < 2:
        return
    rows = direction.reshape(-1, shape[-1])
    order = random.permutation(len(rows)) if len(rows) > MAX_ROWS else np.arange(len(rows))
    for row in order[:MAX_ROWS]:
        kept = np.zeros_like(rows)
        kept[row] = rows[row]
        yield f"row {row} of {len(rows)}", kept.reshape(shape)


def _ends(length: int) -> Sequence[tuple[str, int]]:
    """The last, the first and the middle of an axis, as far as they are not all."""
    if length < 2:
        return ()
    found = [("last", length - 1), ("first", 0)]
    return [*found, ("middle", length // 2)] if length > 2 else found


def _only(whole: tuple[Vector, ...], which: int, part: Vector) -> tuple[Vector, ...]:
    return tuple(part if i == which else np.zeros_like(d) for i, d in enumerate(whole))
