"""Lines where the program cuts off a gradient that exists.

A cut may well be meant: a teacher without gradients, a straight-through estimator. So this names
the lines and what hangs on them, and blames nobody.
"""

from __future__ import annotations

from lossleuth.findings.gradient import Cut, GraphCuts
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.distance import distance, norm
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.gradients import opened_gradients, shared_gradients
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Backward, Window, dense

# A cut that changes less than this share of the opened gradient changes no more than rounding in
# float64 does. Picked by hand.
MIN_CHANGED_SHARE = 1e-9


def graph_cuts(window: Window, run: Backward) -> GraphCuts:
    """Replay with every cut opened and compare."""
    tape = window.tape
    try:
        kept = shared_gradients(window, run, float64=True).gradients
        opened = opened_gradients(window, run)
    except CannotReplay as reason:
        return GraphCuts(None, (), (), (), untested=str(reason))
    trained = {id(p) for update in window.updates for p in update.parameters}
    if opened is kept:
        return GraphCuts(0.0, (), (), ())
    numbers = [i for i in run.before if not trained or id(tape.leaves[i]) in trained]
    whole = norm(opened[i] for i in numbers)
    starved: list[str] = []
    changed: list[str] = []
    lost = 0.0
    for number in numbers:
        gap = distance(kept[number], opened[number])
        if gap > MIN_CHANGED_SHARE * whole:
            lost += gap**2
            alone = kept[number] is None and not _is_trained_elsewhere(window, run, number)
            here = starved if alone else changed
            here.append(window.name_of(number))
    share = lost**0.5 / whole if whole else 0.0
    places = _places(tape, run) if starved or changed else ()
    return GraphCuts(share, tuple(starved), tuple(changed), places)


def _is_trained_elsewhere(window: Window, run: Backward, number: int) -> bool:
    """Whether another backward pass of the step gives this parameter a gradient."""
    same = window.tape.leaves[number]
    for other in window.backwards:
        for there in other.after if other is not run else ():
            added = other.added_to(there) if window.tape.leaves[there] is same else None
            if added is not None and bool(dense(added).any()):
                return True
    return False


def _places(tape: Tape, run: Backward) -> tuple[Cut, ...]:
    """Operations that detach: their input was made from something that requires a gradient."""
    roots = [root for root in run.roots if root is not None]
    operations = tape.needed_for(roots, run.at)
    fed = tape.fed_by_parameters(operations)
    with_grad = {
        i
        for op in operations
        for i, needs in zip(op.inputs, op.requires_grad, strict=True)
        if needs
    }
    found: dict[Cut, None] = {}
    for operation in operations:
        if operation.function is not None:
            continue
        ends = operation.outputs and not any(o in with_grad for o in operation.outputs)
        if ends and any(i in fed and _requires_grad(operation, i) for i in operation.inputs):
            place = operation.place
            file, line = (None, None) if place is None else (place.file, place.line)
            if not any(o in roots for o in operation.outputs):
                found.setdefault(Cut(file, line, operation.name))
    return (*_copied(tape, operations), *found)


def _copied(tape: Tape, operations: list[Operation]) -> list[Cut]:
    """The first use of a copy made outside torch."""
    found: dict[int, Cut] = {}
    for operation in operations:
        for number in operation.inputs:
            if number in tape.copies and number not in found:
                place = operation.place
                file, line = (None, None) if place is None else (place.file, place.line)
                found[number] = Cut(file, line, "a copy outside torch")
    return list(found.values())


def _requires_grad(operation: Operation, number: int) -> bool:
    return operation.requires_grad[operation.inputs.index(number)]


PROBE = Probe(GraphCuts, lambda a: [graph_cuts(a.window, run) for run in a.backwards])
