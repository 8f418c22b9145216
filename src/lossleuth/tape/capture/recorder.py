"""Writes the window of one step while a program runs; told by hooks what the program does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.capture.compiler_marks import never_compile
from lossleuth.tape.capture.compiler_off import COMPILER_OFF
from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.capture.from_first_grad import PatientCapture
from lossleuth.tape.capture.opaque_losses import recognise_loss, value_of
from lossleuth.tape.capture.own_work import OwnWork
from lossleuth.tape.capture.source_frames import place_of
from lossleuth.tape.op_schemas import tensors_in
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.window import Backward, Gradients, Update, Window
from lossleuth.torch_internals import leave_mode, without_modes

# Results of modules whose gradients are kept, and how many numbers those may have.
MOST_BOUNDARIES = 64
MOST_NUMBERS = 1 << 23


class Recorder:
    """Begins with the first forward pass of a step and ends after its last update.

    What comes between that and the next step may belong to either: then two are at work side by
    side, and the same `own` work is left out of both. One that is `patient` is started before an
    update by hand, and begins with what comes after it.
    """

    def __init__(self, step: int, own: OwnWork | None = None, *, patient: bool = False) -> None:
        kind = PatientCapture if patient else Capture
        self.capture: Capture = kind(own)
        self.window = Window(step, self.capture.tape)
        self._entered = False
        self._hooks: list[Any] = []
        # Calls of custom functions whose results were looked at.
        self._recognised = 0
        # The node of the graph, and which of its results, that each module's result came from.
        self._nodes: dict[int, tuple[Any, int]] = {}

    def start(self) -> None:
        """Record from now on."""
        COMPILER_OFF.acquire()
        self.capture.__enter__()  # type: ignore[no-untyped-call]  # untyped base
        self._entered = True

    def stop(self) -> None:
        """Record no more; the mode need not be the innermost one."""
        if not self._entered:
            return
        self._entered = False
        leave_mode(self.capture)
        COMPILER_OFF.release()

    def forget(self) -> None:
        """Leave nothing on the program's graph, and nothing to look at."""
        while self._hooks:
            self._hooks.pop().remove()
        self._nodes.clear()
        self.window.backwards.clear()
        self.window.updates.clear()

    def begin_anew(self) -> None:
        """Drop what was recorded of the step so far; there was no backward pass yet."""
        self.forget()
        self._recognised = 0
        self.capture.begin_anew()
        self.window = Window(self.window.step, self.capture.tape, is_partial=True)

    # modules

    def enter_module(self, name: str) -> None:
        """A module begins its forward pass."""
        self.capture.modules.append(name)

    def leave_module(self, output: Any = None) -> None:
        """It is done, with this result."""
        if not self.capture.modules:
            return
        name = self.capture.modules.pop()
        made = next(tensors_in(output), None)
        node = None if made is None else made.grad_fn
        if made is not None and node is not None and made.is_floating_point() and made.dim() > 1:
            number = self.capture.known(made)
            # A result that several modules hand on is the innermost one's.
            if number is not None and number not in self.window.boundaries:
                self.window.boundaries[number] = name
                self._nodes[number] = (node, made.output_nr)

    # backward

    def begin_backward(
        self, roots: Sequence[Any], seeds: Sequence[Any], *, creates_graph: bool = False
    ) -> Backward:
        """The engine is about to run."""
        capture, window = self.capture, self.window
        place, _ = place_of()
        known = [capture.known(root) for root in roots]
        for root, number in zip(roots, known, strict=True):
            if number is not None:
                capture.note_function_output(root, number)
        self._recognise_losses()
        window.tape.backward_begins()
        for number, parameter in window.tape.parameters.items():
            capture.note_hooks(parameter, number)
        given = [s.detach().clone() if isinstance(s, Tensor) else None for s in seeds]
        given += [None] * (len(known) - len(given))
        at, before = len(window.tape.operations), _gradients(window.tape.parameters)
        run = Backward(at, known, given, before, place=place, creates_graph=creates_graph)
        self._hooks = [
            *self._watch_functions(),
            *self._watch_hooked(run),
            *self._watch_boundaries(run),
        ]
        capture.pause()
        return run

    def end_backward(
        self, run: Backward, returned: Sequence[tuple[Any, Tensor | None]] | None = None
    ) -> None:
        """It has run; `returned` are inputs with their gradients, where they were asked for."""
        self.capture.resume()
        while self._hooks:
            self._hooks.pop().remove()
        if returned is None:
            run.after = _gradients(self.window.tape.parameters)
        else:
            run.returned = True
            pairs = ((self.capture.known(tensor), gradient) for tensor, gradient in returned)
            run.after = {
                number: None if gradient is None else gradient.detach().clone()
                for number, gradient in pairs
                if number is not None
            }
        self.window.backwards.append(run)
        self.window.tape.backward_ends()

    def _recognise_losses(self) -> None:
        """Losses of compiled kernels, while what they have computed is still there."""
        tape = self.window.tape
        with without_modes(), neutral(float64=False, gradients=False):
            for call in tape.functions[self._recognised :]:
                for number in call.outputs.values():
                    recognise_loss(tape, call, number, value_of(self.capture.tensor(number)))
        self._recognised = len(tape.functions)

    def _watch_functions(self) -> list[Any]:
        """Keep what goes into the backward of each custom function, and what comes out."""
        return [node.register_hook(_keeper(call)) for node, call in self.capture.calls.items()]

    def _watch_hooked(self, run: Backward) -> list[Any]:
        """Keep the gradients of tensors that the program has hooks on: ours come last."""
        parameters = self.window.tape.parameters
        hooks = []
        for number in self.window.tape.hooks:
            tensor = self.capture.tensor(number)
            if tensor is not None and number not in parameters:
                hooks.append(tensor.register_hook(_holder(run, number)))  # type: ignore[no-untyped-call]  # untyped
        return hooks

    def _watch_boundaries(self, run: Backward) -> list[Any]:
        """Keep the gradients of the results of modules, of the outermost where there are many."""
        layouts, boundaries = self.window.tape.layouts, self.window.boundaries
        chosen: list[int] = []
        room = MOST_NUMBERS
        for number in sorted(self._nodes, key=lambda i: boundaries[i].count(".")):
            room -= math.prod(layouts[number].shape)
            if room > 0 and len(chosen) < MOST_BOUNDARIES:
                chosen.append(number)
        kept = ((number, *self._nodes[number]) for number in chosen)
        return [node.register_prehook(_taker(run, number, which)) for number, node, which in kept]

    # update

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to use the gradients."""
        capture = self.capture
        capture.pause()
        with without_modes(), torch.no_grad():
            groups = [
                {k: v for k, v in g.items() if k != "params"} | {"count": len(g["params"])}
                for g in optimizer.param_groups
            ]
            parameters = [p for g in optimizer.param_groups for p in g["params"]]
            before = [p.detach().clone() for p in parameters]
            self._keep_values(parameters, before)
            self.window.updates.append(
                Update(
                    len(self.window.tape.operations),
                    optimizer,
                    groups,
                    parameters,
                    before=before,
                    gradients=[
                        None if p.grad is None else p.grad.detach().clone() for p in parameters
                    ],
                    state=[_copied(optimizer.state.get(p)) for p in parameters],
                )
            )

    def _keep_values(self, parameters: list[Tensor], before: list[Tensor]) -> None:
        """An update that torch does not see, by a compiled optimizer, leaves no trace but this."""
        tape = self.window.tape
        values = {id(p): value for p, value in zip(parameters, before, strict=True)}
        for number, parameter in tape.parameters.items():
            if id(parameter) in values and number not in tape.snapshots:
                tape.snapshots[number] = values[id(parameter)]

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """It has made its update."""
        if self.window.updates and self.window.updates[-1].optimizer is optimizer:
            update = self.window.updates[-1]
            with without_modes(), torch.no_grad():
                update.after = [p.detach().clone() for p in update.parameters]
                # The rule of torch's own is known without.
                if not type(optimizer).__module__.startswith("torch.optim"):
                    update.state_after = [
                        _copied(optimizer.state.get(p)) for p in update.parameters
                    ]
            self.capture.resume()


def _gradients(parameters: dict[int, Tensor]) -> Gradients:
    with without_modes(), torch.no_grad():
        return {
            number: None if p.grad is None else p.grad.detach().clone()
            for number, p in parameters.items()
        }


def _copied(state: Any) -> dict[str, Any]:
    return {
        name: value.detach().clone() if isinstance(value, Tensor) else value
        for name, value in (state or {}).items()
    }


def _keeper(call: Any) -> Any:
    @never_compile
    def keep(gave: Sequence[Tensor | None], given: Sequence[Tensor | None]) -> None:
        with without_modes():
            call.gave = [None if g is None else g.detach().clone() for g in gave]
            call.given = [None if g is None else g.detach().clone() for g in given]

    return keep


def _taker(run: Backward, number: int, which: int) -> Any:
    @never_compile
    def take(gradients: Sequence[Tensor | None]) -> None:
        gradient = gradients[which]
        if gradient is not None:
            with without_modes():
                run.at_boundaries[number] = gradient.detach().clone()

    return take


def _holder(run: Backward, number: int) -> Any:
    @never_compile
    def hold(gradient: Tensor) -> None:
        with without_modes():
            run.hooked[number] = gradient.detach().clone()

    return hold
