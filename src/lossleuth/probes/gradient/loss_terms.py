"""The terms that a loss is the sum of, and which of them steers.

From the number that is differentiated, back through sums and products with constants. Each term's
gradient is compared with that of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lossleuth.tape.replay.gradients import replayed_gradients, shared_gradients
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.replay.substitutes import CannotReplay
from lossleuth.tape.tape import Operation, Ref, Tape
from lossleuth.tape.window import Backward, Gradients, Window

MOST_TERMS = 6
# A number under another name.
_SAME = ("alias", "clone", "view", "_unsafe_view", "_to_copy", "squeeze", "unsqueeze", "reshape")


@dataclass(frozen=True)
class Term:
    """One term: what it is, where it was made, and its part in the gradient."""

    value: float
    coefficient: float
    file: str | None
    line: int | None
    operation: str | None
    # Norm of its gradient over the sum of all terms' norms.
    norm_share: float | None
    # How much of the whole gradient it makes: all of them together give 1.
    steering: float | None
    cosine: float | None
    untested: str | None = None
    # Its place in the sum, counted from 0 as the program adds them up.
    index: int = 0


@dataclass(frozen=True)
class _Part:
    """A tensor as it was before an operation, times a number."""

    number: int
    before: int
    coefficient: float
    index: int = 0


def terms(window: Window, run: Backward) -> list[Term]:
    """The terms of what a backward pass differentiated, the one that steers most first."""
    tape, parts = window.tape, _parts(window.tape, run)
    if not parts:
        return []
    if len(parts) == 1:
        # The whole is its own only term.
        return [_term(tape, parts[0], 1.0, 1.0, 1.0)]
    if len(parts) > MOST_TERMS:
        return [_term(tape, part, None, None, None, "too many terms") for part in parts]
    try:
        whole = shared_gradients(window, run, wide=True).gradients
        found = [_gradient(tape, run, part) for part in parts]
    except CannotReplay as reason:
        return [_term(tape, part, None, None, None, str(reason)) for part in parts]
    sizes = [math.sqrt(_dot(run, own, own)) for own in found]
    every, square = sum(sizes) or 1.0, _dot(run, whole, whole)
    terms_ = []
    for part, own, size in zip(parts, found, sizes, strict=True):
        dot = _dot(run, own, whole)
        product = size * math.sqrt(square)
        cosine = dot / product if product else 0.0
        terms_.append(_term(tape, part, size / every, dot / square if square else 0.0, cosine))
    return sorted(terms_, key=lambda term: -abs(term.steering or 0.0))


def gradient_without(window: Window, run: Backward, index: int) -> Gradients | None:
    """The gradient of a loss without the term of that index; None where it has none such.

    What no other term depends on has no gradient then.
    """
    parts = _parts(window.tape, run)
    if len(parts) < 2 or not 0 <= index < len(parts):
        return None
    if any(other.creates_graph for other in window.backwards):
        raise CannotReplay("a term may depend on a gradient (of higher order)")
    whole: Gradients = dict.fromkeys(run.before)
    for part in parts:
        if part.index != index:
            for number, own in _gradient(window.tape, run, part).items():
                so_far = whole.get(number)
                if own is not None:
                    whole[number] = own if so_far is None else so_far + own
    return whole


def _parts(tape: Tape, run: Backward) -> list[_Part]:
    """The terms of a single number that was differentiated, as they are added up."""
    roots = [root for root in run.roots if root is not None]
    if len(roots) != 1 or math.prod(tape.layouts[roots[0]].shape) != 1:
        return []
    return _merged(_Walk(tape, run).parts(roots[0], run.at, 1.0))


class _Walk:
    """Back from a number to the terms that it is the sum of."""

    def __init__(self, tape: Tape, run: Backward) -> None:
        self._tape, self._run = tape, run
        # The operations that made or wrote each tensor.
        self._makers: dict[int, list[Operation]] = {}
        for operation in tape.operations[: run.at]:
            for number in {*(o for o in operation.outputs if o is not None), *operation.written}:
                self._makers.setdefault(number, []).append(operation)

    def parts(self, number: int, before: int, factor: float) -> Iterator[_Part]:
        made = [o for o in self._makers.get(number, ()) if o.number < before]
        whole = _Part(number, before, factor)
        if not made or math.prod(self._tape.layouts[number].shape) != 1:
            yield whole
            return
        operation = made[-1]
        below = list(self._below(operation))
        if not below:
            yield whole
        for argument, times in below:
            cut = (argument, False) in zip(operation.inputs, operation.live, strict=True)
            if not cut and self._depends(argument, operation.number):
                yield from self.parts(argument, operation.number, factor * times)

    def _below(self, operation: Operation) -> Iterator[tuple[int, float]]:
        """The terms of one operation with their coefficients; none where it is no sum."""
        name, args = operation.name.removesuffix("_"), operation.args
        first = args[0].id if args and type(args[0]) is Ref else None
        other = args[1] if len(args) > 1 else None
        if name in ("add", "sub") and first is not None:
            yield first, 1.0
            if type(other) is Ref:
                alpha = float(operation.kwargs.get("alpha", 1))
                yield other.id, alpha if name == "add" else -alpha
        elif name == "neg" and first is not None:
            yield first, -1.0
        elif name in ("mul", "div") and first is not None:
            yield from self._scaled(operation, first, other)
        elif operation.name in _SAME and first is not None:
            yield first, 1.0
        elif name in ("sum", "mean") and first is not None:
            yield from self._stacked(first, operation.number, name)

    def _scaled(self, operation: Operation, first: int, other: Any) -> Iterator[tuple[int, float]]:
        divides = operation.name.startswith("div")
        if divides and operation.kwargs.get("rounding_mode"):
            return
        constant = self._constant(other, operation.number)
        if constant is not None and (constant or not divides):
            yield first, 1 / constant if divides else constant
        elif not divides and type(other) is Ref:
            constant = self._constant(Ref(first), operation.number)
            if constant is not None:
                yield other.id, constant

    def _stacked(self, number: int, before: int, name: str) -> Iterator[tuple[int, float]]:
        """Single numbers that were put together and summed."""
        for operation in reversed(self._makers.get(number, ())):
            if operation.number < before and operation.name in ("stack", "cat"):
                listed = operation.args[0]
                sizes = [math.prod(self._tape.layouts[ref.id].shape) for ref in listed]
                if all(size == 1 for size in sizes):
                    share = 1.0 if name == "sum" else 1 / len(listed)
                    yield from ((ref.id, share) for ref in listed)
                return

    def _constant(self, value: Any, before: int) -> float | None:
        """The value of a number that does not depend on what is trained."""
        if isinstance(value, int | float):
            return float(value)
        if type(value) is not Ref or math.prod(self._tape.layouts[value.id].shape) != 1:
            return None
        if self._depends(value.id, before):
            return None
        return _value(self._tape, _Part(value.id, before, 1.0))

    def _depends(self, number: int, before: int) -> bool:
        if number in self._run.before:
            return True
        operations = self._tape.needed_for([number], before)
        return any(
            i in self._run.before and live
            for operation in operations
            for i, live in zip(operation.inputs, operation.live, strict=True)
        )


def _merged(parts: Iterator[_Part]) -> list[_Part]:
    found: dict[tuple[int, int], float] = {}
    for part in parts:
        key = part.number, part.before
        found[key] = found.get(key, 0.0) + part.coefficient
    return [_Part(*key, factor, index) for index, (key, factor) in enumerate(found.items())]


def _term(
    tape: Tape,
    part: _Part,
    norm_share: float | None,
    steering: float | None,
    cosine: float | None,
    untested: str | None = None,
) -> Term:
    maker = next((o for o in tape.operations[: part.before] if part.number in o.outputs), None)
    place = None if maker is None else maker.place
    file, line = (None, None) if place is None else (place.file, place.line)
    try:
        value = _value(tape, part)
    except CannotReplay as reason:
        value, untested = math.nan, str(reason)
    name = None if maker is None else maker.name
    return Term(
        value,
        part.coefficient,
        file,
        line,
        name,
        norm_share,
        steering,
        cosine,
        untested,
        part.index,
    )


def _value(tape: Tape, part: _Part) -> float:
    replay = Replay(tape, gradients=False)
    return float(replay.run([part.number], before=part.before)[part.number].detach().sum())


def _gradient(tape: Tape, run: Backward, part: _Part) -> Gradients:
    """The gradient of a term with its coefficient and what the whole was differentiated with."""
    alone = Backward(part.before, [part.number], [None], run.before)
    seed = run.seeds[0]
    factor = part.coefficient * (1.0 if seed is None else float(seed.sum()))
    found = replayed_gradients(tape, alone, wide=True)
    return {i: None if g is None else g * factor for i, g in found.items()}


def _dot(run: Backward, one: Gradients, other: Gradients) -> float:
    total = 0.0
    for number in run.before:
        a, b = one.get(number), other.get(number)
        if a is not None and b is not None:
            total += float((a * b).sum())
    return total
