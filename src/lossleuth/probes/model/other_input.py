"""Do tokens that are looked up beside those that the targets follow matter, such as an encoder's?

They are changed where the program looks them up, and the step is replayed in float64: if no logit
moves at all, they are lost on their way. What they are worth is what predictions lose if each text
gets those of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from lossleuth.findings.model import OtherInput
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.model.changed_tokens import (
    ChangedTokens,
    moves,
    others_than,
    spread,
    step_to_change,
)
from lossleuth.probes.model.running_statistics import Inputs
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.tokens import Tokens, lookups_by_constancy, values_of
from lossleuth.tape.tape import Operation

# Other inputs that are tried, the largest first: two replays each.
MOST = 3
# Different numbers that are looked up, at least: kinds of segments are fewer. Picked by hand.
MIN_DISTINCT = 8
# The share of steps from one number to the next that go up by one, in positions.
COUNTING = 0.5


def other_inputs(analysis: Analysis) -> Iterator[OtherInput]:
    """Change each of them, and see what becomes of the logits."""
    try:
        step = step_to_change(analysis.window, analysis.roles)
        found = _lookups(step)
    except CannotReplay:
        # The probe of leaks says so.
        return
    if not found:
        return
    base = step.rows(step.tokens)
    unit = spread(base)
    for number, (values, lookups) in enumerate(found):
        try:
            others = others_than(values, values.reshape(-1)).reshape(values.shape)
            rows = step.rows(step.tokens, _swapped(lookups, others))
            moved = float(moves(rows, base).max()) / unit
            worth = _worth(step, base, values, lookups)
        except CannotReplay:
            continue
        place = lookups[0].place
        yield OtherInput(None if place is None else str(place), moved, step.floor, worth, number)


def _worth(
    step: ChangedTokens, base: Tensor, values: Tensor, lookups: list[Operation]
) -> float | None:
    """Nats that a prediction loses with the tokens of another text."""
    texts = len(step.tokens)
    axis = next((axis for axis in (0, 1) if values.shape[axis] == texts), None)
    if axis is None or texts < 2:
        return None
    rows = step.rows(step.tokens, _swapped(lookups, values.roll(1, axis)))
    own, others = step.losses(base, step.counted), step.losses(rows, step.counted)
    if own is None or others is None or not len(own):
        return None
    return float((others - own).mean())


def _lookups(step: ChangedTokens) -> list[tuple[Tensor, list[Operation]]]:
    """Other tokens with the operations that look them up, the largest first."""
    roles, tape = step.roles, step.window.tape
    made = roles.scores if roles.features is None else roles.features.factor
    if made is None:
        return []
    by_index: dict[int, list[Operation]] = {}
    for operation in lookups_by_constancy(tape, [made], roles.run.at)[1]:
        index = operation.inputs[1]
        if operation.number not in roles.tokens_used and index != roles.tokens:
            by_index.setdefault(index, []).append(operation)
    found = []
    for index, operations in by_index.items():
        at = operations[0].number
        values = values_of(tape, Tokens(index, at, frozenset([at]), 0))
        if values is None or len(torch.unique(values)) < MIN_DISTINCT or _counts_up(values):
            continue
        found.append((values, operations))
    found.sort(key=lambda one: -one[0].numel())
    return found[:MOST]


def _counts_up(values: Tensor) -> bool:
    """Whether numbers are positions, which may begin anywhere: mostly one more than the last."""
    return bool(((values[:, 1:] - values[:, :-1]) == 1).double().mean() > COUNTING)


def _swapped(lookups: list[Operation], values: Tensor) -> Inputs:
    """Other numbers to be looked up, by these operations alone."""
    numbers = {operation.number for operation in lookups}

    def swap(number: int, there: Tensor) -> Tensor:
        return values.to(there.dtype) if number in numbers else there

    swaps: dict[int, Callable[[int, Tensor], Tensor]] = {lookups[0].inputs[1]: swap}
    return swaps


PROBE = Probe(OtherInput, other_inputs)
