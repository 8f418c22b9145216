"""Writes the window of one step while a program runs; told by hooks what the program does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _python_dispatch as dispatch

from lossleuth.tape.capture import Capture
from lossleuth.tape.frames import place_of
from lossleuth.tape.window import Backward, Gradients, Update, Window


class Recorder:
    """Begins with the first forward pass of a step and ends after its last update."""

    def __init__(self, step: int) -> None:
        self._capture = Capture()
        self.window = Window(step, self._capture.tape)
        self._entered = False

    def start(self) -> None:
        """Record from now on."""
        self._capture.__enter__()  # type: ignore[no-untyped-call]  # untyped base
        self._entered = True

    def stop(self) -> None:
        """Record no more; the mode need not be the innermost one."""
        if not self._entered:
            return
        self._entered = False
        above = []
        while (mode := dispatch._pop_mode()) is not self._capture:
            above.append(mode)
        for mode in reversed(above):
            dispatch._push_mode(mode)

    # modules

    def enter_module(self, name: str) -> None:
        """A module begins its forward pass."""
        self._capture.modules.append(name)

    def leave_module(self) -> None:
        """It is done."""
        if self._capture.modules:
            self._capture.modules.pop()

    # backward

    @contextmanager
    def backward(
        self, roots: Sequence[Any], seeds: Sequence[Any], **how: bool
    ) -> Iterator[Backward]:
        """Around a run of the engine; set `after` yourself where gradients are returned."""
        capture, window = self._capture, self.window
        place, _ = place_of()
        parameters = window.tape.parameters
        known = [capture.known(root) for root in roots]
        given = [s.detach().clone() if isinstance(s, Tensor) else None for s in seeds]
        seeds_of = given + [None] * (len(known) - len(given))
        run = Backward(len(window.tape.operations), known, seeds_of, _gradients(parameters))
        run.place, run.returned = place, how.get("returned", False)
        run.creates_graph = how.get("creates_graph", False)
        for root, number in zip(roots, known, strict=True):
            if number is not None:
                capture.note_function_output(root, number)
        hooks = self._watch_functions()
        capture.pause()
        try:
            yield run
        finally:
            capture.resume()
            for hook in hooks:
                hook.remove()
            if not run.returned:
                run.after = _gradients(parameters)
            window.backwards.append(run)

    def _watch_functions(self) -> list[Any]:
        """Keep what goes into the backward of each custom function, and what comes out."""
        return [node.register_hook(_keeper(call)) for node, call in self._capture.calls.items()]

    # update

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to use the gradients."""
        capture = self._capture
        capture.pause()
        with dispatch._disable_current_modes(), torch.no_grad():
            groups = [
                {k: v for k, v in g.items() if k != "params"} | {"count": len(g["params"])}
                for g in optimizer.param_groups
            ]
            parameters = [p for g in optimizer.param_groups for p in g["params"]]
            self.window.updates.append(
                Update(
                    len(self.window.tape.operations),
                    optimizer,
                    groups,
                    parameters,
                    before=[p.detach().clone() for p in parameters],
                    gradients=[
                        None if p.grad is None else p.grad.detach().clone() for p in parameters
                    ],
                    state=[_copied(optimizer.state.get(p)) for p in parameters],
                )
            )

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """It has made its update."""
        if self.window.updates and self.window.updates[-1].optimizer is optimizer:
            update = self.window.updates[-1]
            with dispatch._disable_current_modes(), torch.no_grad():
                update.after = [p.detach().clone() for p in update.parameters]
            self._capture.resume()


def _gradients(parameters: dict[int, Tensor]) -> Gradients:
    with dispatch._disable_current_modes(), torch.no_grad():
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
    def keep(gave: Sequence[Tensor | None], given: Sequence[Tensor | None]) -> None:
        with dispatch._disable_current_modes():
            call.gave = [None if g is None else g.detach().clone() for g in gave]
            call.given = [None if g is None else g.detach().clone() for g in given]

    return keep
