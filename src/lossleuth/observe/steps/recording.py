"""Recording chosen steps of the running program on a tape, and looking at each when it is over.

A failure of ours ends the recording, never the program.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.observe.failures import Failures
from lossleuth.observe.module_hooks import listen_to_modules
from lossleuth.observe.steps.evaluations import Evaluations, printed_so_far
from lossleuth.probes.gradient.backward_hook import place_of_hook
from lossleuth.probes.run import look_at_evaluation
from lossleuth.tape.capture.compiler_marks import around, ours
from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.window import Backward, Window

Look = Callable[[Window], RecordedStep]
# Backward passes of one step that are recorded.
MOST_BACKWARDS = 64
# Until then, optimizers are those that the program begins with; after a later one, which steps of
# its phase are recorded, and of how many phases.
EARLY, PHASE_STEPS, MOST_PHASES = 20, (1, 8, 40), 2


class Taping:
    """Which steps are recorded, and the recorder at work."""

    def __init__(
        self,
        steps: Iterable[int],
        look: Look,
        at_root_call: Callable[[], None],
        failures: Failures,
        evaluations: Evaluations | None = None,
    ) -> None:
        # Which steps follow an evaluation; those foreseen are recorded for its sake.
        self.evaluations = evaluations or Evaluations()
        self._printed_before = 0
        self._steps = set(steps)
        self._looked_at = set(self._steps)
        self._phases = 0
        self._all = False
        self._look = look
        self._at_root_call = at_root_call
        self._failures = failures
        self._recorder: Recorder | None = None
        # What records operations just now.
        self.capture: Capture | None = None
        # Of the next step, between an update and the first that is known to come after it.
        self._next: Recorder | None = None
        self._unlisten: Callable[[], None] | None = None
        self._names: dict[int, str] = {}
        self._paused = False
        # The window and the backward pass that has just ended in it, where that is recorded.
        self.latest: tuple[Window | None, Backward | None] = (None, None)
        # Whether it is us who differentiate something just now.
        self.looking = False

    @property
    def window(self) -> Window | None:
        """What is recorded of the present step so far."""
        return None if self._recorder is None else self._recorder.window

    @property
    def is_overdue(self) -> bool:
        """Whether a recorded step is over and could not be looked at yet."""
        return self._paused

    def want_all(self) -> None:
        """Record every step from now on."""
        self._all = True

    def new_phase(self, step: int) -> None:
        """An optimizer that is made late begins something new: its first steps are wanted too."""
        if step > EARLY and self._looked_at and self._phases < MOST_PHASES:
            self._phases += 1
            wanted = {step + after for after in PHASE_STEPS}
            self._steps |= wanted
            self._looked_at |= wanted

    def begin(self, step: int, *, patient: bool = False) -> None:
        """Record from here on, or from the next forward pass on, if this step is wanted."""
        foreseen = self.evaluations.begin(step)
        now, wanted = self._recorder, self._all or step in self._steps
        if now is None:
            if not (wanted or foreseen):
                return
        elif not wanted or self._paused or self._next is not None or now.window.step >= step:
            # An evaluation that comes after a recorded step is recorded with that.
            return
        if not _is_safe():
            return
        recorder = Recorder(step, now, patient=patient)
        recorder.start()
        if now is not None:
            self._next = recorder
        else:
            self._take_over(recorder)

    def not_yet(self, step: int) -> None:
        """This step goes on: what was taken for the beginning of the next one was not."""
        self._drop_next()
        if self._recorder is not None and self._recorder.window.step > step and _is_safe():
            self._steps.add(self._recorder.window.step)
            self._stop()

    def _take_over(self, recorder: Recorder) -> None:
        self._recorder, self.capture = recorder, recorder.capture
        self._steps.discard(recorder.window.step)
        self._printed_before = printed_so_far()
        self._unlisten = listen_to_modules(self._leave_module, self._enter_module)

    def end(self, step: int, names: Callable[[Tensor], str | None]) -> RecordedStep | None:
        """This step is over: look at its recording, if there is one and the time is right."""
        if self._recorder is None or self._recorder.window.step > step:
            return None
        window = self._recorder.window
        if not _is_safe():
            self._drop_next()
            self._pause()
            return None
        following, self._next = self._next, None
        if following is not None:
            following.stop()
        self._stop()
        try:
            return self._looked_at_window(window, names)
        finally:
            if following is not None:
                following.start()
                self._take_over(following)

    def _looked_at_window(
        self, window: Window, names: Callable[[Tensor], str | None]
    ) -> RecordedStep | None:
        looked_at = window.step in self._looked_at
        if not window.backwards and not window.updates:
            # After the last update there may be an evaluation, and nothing else.
            if not (window.tape.operations and self.evaluations.records):
                return None
            looked_at = False
        for number, parameter in window.tape.parameters.items():
            name = names(parameter)
            if name is not None:
                window.names[number] = name
        self.looking = True
        try:
            if not looked_at and not self.evaluations.records:
                return None
            look = self._look if looked_at else look_at_evaluation
            # What torch has to say about our computations is not for the program's user.
            with warnings.catch_warnings(), neutral(float64=False, gradients=True):
                warnings.simplefilter("ignore")
                found = look(window)
            self.evaluations.looked(found.first(Evaluation))
            return replace(found, printed=(self._printed_before, printed_so_far()))
        finally:
            self.looking = False

    def _drop_next(self) -> None:
        following, self._next = self._next, None
        if following is not None:
            following.stop()

    def _pause(self) -> None:
        if self._recorder is not None and not self._paused:
            self._paused = True
            self._recorder.capture.pause()

    def _discard(self) -> None:
        """Record no more of this step; the mode is left where that is safe."""
        self._drop_next()
        if self._recorder is not None:
            self._recorder.forget()
            self._pause()

    def _stop(self) -> None:
        recorder, self._recorder, self.capture = self._recorder, None, None
        self._paused = False
        if self._unlisten is not None:
            self._unlisten()
        self._unlisten = None
        if recorder is not None:
            recorder.stop()

    # the program's doings

    @around
    def run_backward(
        self,
        original: Callable[..., Any],
        outputs: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Let the engine run, with an eye on it."""
        seeds, _, creates_graph, inputs = (*args, None, None, None, None)[:4]
        run = self._attempt(
            "begin_backward", outputs, seeds or (), creates_graph=bool(creates_graph)
        )
        try:
            result = original(outputs, *args, **kwargs)
        except BaseException:
            # The program may catch it and go on; this step has no gradient to judge.
            self._discard()
            raise
        self.latest = (None, None)
        if run is not None and self._recorder is not None:
            returned = None
            if not kwargs.get("accumulate_grad"):
                returned = list(zip(inputs or (), result, strict=False))
            window = self._recorder.window
            self._attempt("end_backward", run, returned)
            self.latest = (window, run)
            if len(window.backwards) >= MOST_BACKWARDS:
                # Perhaps no update will ever come.
                self._pause()
        return result

    def before_update(self, optimizer: Any) -> None:
        """An optimizer is about to use the gradients."""
        # Not the first of this step: the next one has not begun yet.
        self._drop_next()
        self._attempt("before_update", optimizer)

    def after_update(self, optimizer: Any) -> None:
        """It has."""
        self._attempt("after_update", optimizer)

    @ours
    def _attempt(self, name: str, *args: Any, **kwargs: Any) -> Any:
        recorder = self._recorder
        if recorder is None or self._paused:
            return None
        recorder.capture.ignoring += 1
        try:
            return getattr(recorder, name)(*args, **kwargs)
        except Exception as error:
            self._failures.note(name, error)
            self._discard()
            return None
        finally:
            recorder.capture.ignoring -= 1

    # modules

    @ours
    def _enter_module(self, module: nn.Module, _inputs: Any) -> None:
        if self._recorder is None:
            return
        if not self._recorder.capture.modules:
            self._at_root_call()
            if self._recorder is None:
                return
            window = self._recorder.window
            if window.step not in self._looked_at and self.evaluations.is_too_long(window):
                self._pause()
                return
        if id(module) not in self._names:
            self._names |= {id(m): name or type(m).__name__ for name, m in module.named_modules()}
        name = self._names[id(module)]
        hooks = [*module._backward_hooks.values(), *module._backward_pre_hooks.values()]
        if hooks:
            self._recorder.window.module_hooks[name] = tuple(map(place_of_hook, hooks))
        self._recorder.enter_module(name)

    @ours
    def _leave_module(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        if self._recorder is not None:
            self._recorder.leave_module(output)


def _is_safe() -> bool:
    """Whether a mode may be entered or left here.

    Inside inference mode or a compiled function, torch restores its own state on the way out and
    would be left with half of ours.
    """
    if torch.is_inference_mode_enabled():
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        # A compiled module's `__call__` stands before anything compiled.
        if code.co_filename.endswith(_COMPILED) and code.co_name != "__call__":
            return False
        frame = frame.f_back
    return True


_COMPILED = ("torch/_dynamo/eval_frame.py", "torch/_inductor/output_code.py")
