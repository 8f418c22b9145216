"""Do hooks of the program change gradients?

A hook is any function that the program registered for a tensor's gradient. The hooks are not run
again, since they are the user's code and may count or print; what the engine had after them is
compared with the true gradient of the same tensor.
"""

from __future__ import annotations

import math
from typing import Any

from lossleuth.findings.gradient import BackwardHook
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.distance import distance, norm
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.gradients import shared_gradients
from lossleuth.tape.tape import Tape
from lossleuth.tape.window import Backward, Window
from lossleuth.torch_internals import ModuleHookFunction


def backward_hooks(window: Window, run: Backward) -> list[BackwardHook]:
    """All tensors with hooks, those nearest to the loss first: errors flow back from there."""
    tape, used = window.tape, run.added()
    modules = [_of_module(tape, name, places) for name, places in window.module_hooks.items()]
    if not tape.hooks:
        return modules
    numbers = sorted(tape.hooks, key=lambda i: (i in tape.leaves, -i))
    try:
        true = shared_gradients(window, run, float64=True).gradients
        noisy = shared_gradients(window, run, float64=False).gradients
    except CannotReplay as reason:
        return [
            BackwardHook(_name(window, i), _places(tape, i), None, None, untested=str(reason))
            for i in numbers
        ]
    found = []
    for number in numbers:
        there, wanted = run.hooked.get(number, used.get(number)), true.get(number)
        if wanted is None or there is None:
            continue
        unit = norm([wanted]) or 1.0
        error, floor = distance(there, wanted) / unit, distance(noisy.get(number), wanted) / unit
        found.append(BackwardHook(_name(window, number), _places(tape, number), error, floor))
    return found + modules


def _of_module(tape: Tape, name: str, places: tuple[str, ...]) -> BackwardHook:
    """Hooks of a module: torch calls them at a function that hands on what it is given."""
    calls = [
        call
        for call in tape.functions
        if call.cls is ModuleHookFunction
        and call.given is not None
        and tape.operations[call.first].module == name
    ]
    if not calls:
        reason = "the call of the module's hook was not recorded; see the custom functions"
        return BackwardHook(f"module {name}", places, None, None, untested=reason)
    errors = []
    for call in calls:
        pairs = zip(call.gave or (), call.given or (), strict=False)
        known = [(gave, given) for gave, given in pairs if gave is not None and given is not None]
        size = norm(given for _, given in known) or 1.0
        errors.append(math.hypot(*(distance(gave, given) for gave, given in known)) / size)
    # Handing on has no rounding.
    return BackwardHook(f"module {name}", places, max(errors), 0.0)


def _name(window: Window, number: int) -> str:
    if number in window.tape.leaves:
        return window.name_of(number)
    maker = window.tape.makers().get(number)
    return "a tensor" if maker is None else f"the result of {maker.name} at {maker.place}"


def _places(tape: Tape, number: int) -> tuple[str, ...]:
    return tuple(place_of_hook(hook) for hook in tape.hooks[number])


def place_of_hook(hook: Any) -> str:
    """File and line of a function that is called with a gradient, as far as it has any."""
    code = getattr(hook, "__code__", None)
    if code is None:
        code = getattr(type(hook).__dict__.get("__call__"), "__code__", None)
    return "?" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


PROBE = Probe(
    BackwardHook, lambda a: [h for run in a.backwards for h in backward_hooks(a.window, run)]
)
