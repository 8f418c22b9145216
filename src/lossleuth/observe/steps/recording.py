"""Recording chosen steps of the running program on a tape, and looking at each when it is over.

A failure of ours ends the recording, never the program.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.observe.module_hooks import forget_filter, listen_to_modules
from lossleuth.observe.session import Session
from lossleuth.observe.steps.evaluations import Evaluations, printed_so_far
from lossleuth.observe.steps.pacing import Pacing
from lossleuth.observe.steps.wanted_steps import WantedSteps
from lossleuth.probes.analysis import RunMemory
from lossleuth.probes.gradient.backward_hook import place_of_hook
from lossleuth.probes.run import look_at_evaluation, measure_true_loss, run_probes
from lossleuth.tape.capture.compiler_marks import never_compile, transparent_to_compiler
from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.window import Backward, Window
from lossleuth.torch_internals import COMPILED_FILES, module_gradient_hooks

Look = Callable[[Window], RecordedStep]
# Backward passes of one step that are recorded.
MAX_BACKWARDS = 64


class Recording:
    """Drives the recorder with the events of the running program."""

    def __init__(
        self,
        session: Session,
        wanted: WantedSteps,
        look: Look,
        at_root_call: Callable[[], None],
        evaluations: Evaluations | None = None,
        memory: RunMemory | None = None,
    ) -> None:
        # Which steps follow an evaluation; those foreseen are recorded for its sake.
        self.evaluations = evaluations or Evaluations()
        self.wanted = wanted
        self._session = session
        self._look = look
        self._memory = memory
        self._at_root_call = at_root_call
        self._printed_before = 0
        self._recorder: Recorder | None = None
        # Of the next step, between an update and the first that is known to come after it.
        self._next: Recorder | None = None
        self._unlisten: Callable[[], None] | None = None
        self._names: dict[int, str] = {}
        # Whether the recorder is still there, but records no more: it could not be stopped yet.
        self._paused = False
        # Called when a step has begun.
        self.at_step: Callable[[int], None] = lambda _: None
        # The window and the backward pass that has just ended in it, where that is recorded.
        self.latest: tuple[Window | None, Backward | None] = (None, None)

    @classmethod
    def of(
        cls,
        session: Session,
        tape: Collection[int],
        loss_steps: Collection[int],
        at_root_call: Callable[[], None],
        *,
        until: float = math.inf,
        pacing: Pacing | None = None,
    ) -> Recording:
        """Look at everything in the steps of `tape`, and at the loss alone in `loss_steps`.

        The run has to be over at `until`, in seconds since the epoch. `pacing` chooses further
        steps as the run unfolds.
        """
        only_loss, memory = set(loss_steps) - set(tape), RunMemory(until=until)

        def look(window: Window) -> RecordedStep:
            if window.step in only_loss:
                return measure_true_loss(window, memory)
            return run_probes(window, memory)

        wanted = WantedSteps({*tape, *loss_steps}, pacing)
        evaluations = Evaluations(records=bool(tape) or pacing is not None)
        return cls(session, wanted, look, at_root_call, evaluations, memory)

    @property
    def capture(self) -> Capture | None:
        """What records operations just now."""
        return None if self._recorder is None else self._recorder.capture

    @property
    def window(self) -> Window | None:
        """What is recorded of the present step so far."""
        return None if self._recorder is None else self._recorder.window

    @property
    def is_overdue(self) -> bool:
        """Whether a recorded step is over and could not be looked at yet."""
        return self._paused

    def begin(self, step: int, *, patient: bool = False) -> None:
        """Record from here on, or from the next forward pass on, if this step is wanted."""
        foreseen = self.evaluations.begin(step)
        now, wanted = self._recorder, step in self.wanted
        if now is None:
            if not (wanted or foreseen):
                return
        elif not wanted or self._paused or self._next is not None or now.window.step >= step:
            # An evaluation that comes after a recorded step is recorded with that.
            return
        if not _is_safe():
            return
        recorder = Recorder(step, self._session.own, patient=patient)
        recorder.start()
        if now is not None:
            self._next = recorder
        else:
            self._take_over(recorder)

    def begin_again(self, step: int) -> None:
        """A model was made just now: what was recorded of this step so far is not its beginning."""
        now = self._next or self._recorder
        if now is None or now.window.step != step or now.window.backwards or now.window.updates:
            return
        if self._paused or self.evaluations.has_begun or not _is_safe():
            return
        now.stop()
        recorder = Recorder(step, self._session.own)
        recorder.start()
        if self._next is not None:
            self._next = recorder
        else:
            self._recorder = recorder

    def not_yet(self, step: int) -> None:
        """This step goes on: what was taken for the beginning of the next one was not."""
        self._drop_next()
        if self._recorder is not None and self._recorder.window.step > step and _is_safe():
            self.wanted.put_back(self._recorder.window.step)
            self._stop()

    def _take_over(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.wanted.take(recorder.window.step)
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
            self.wanted.over()
            if following is not None:
                following.start()
                self._take_over(following)

    def _looked_at_window(
        self, window: Window, names: Callable[[Tensor], str | None]
    ) -> RecordedStep | None:
        looked_at = self.wanted.is_looked_at(window.step)
        if not window.backwards and not window.updates:
            # After the last update there may be an evaluation, and nothing else.
            if not (window.tape.operations and self.evaluations.records):
                return None
            looked_at = False
        for number, parameter in window.tape.parameters.items():
            name = names(parameter)
            if name is not None:
                window.names[number] = name
        if not looked_at and not self.evaluations.records:
            return None
        with self._session.ours():
            # What torch has to say about our computations is not for the program's user.
            with warnings.catch_warnings(), neutral(float64=False, gradients=True):
                warnings.simplefilter("ignore")
                if looked_at:
                    found = self._look(window)
                else:
                    found = look_at_evaluation(window, self._memory)
            self.evaluations.looked(found.first(Evaluation))
        return replace(found, printed=(self._printed_before, printed_so_far()))

    def close(self) -> None:
        """Stop for good, and leave nothing of a step that is not over."""
        if self._recorder is not None:
            self._recorder.forget()
        if _is_safe():
            self._drop_next()
            self._stop()
        else:
            # The modes cannot be left here; they let everything pass.
            self._pause()
            self._stop_listening()
        forget_filter()

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
        recorder, self._recorder = self._recorder, None
        self._paused = False
        self._stop_listening()
        if recorder is not None:
            recorder.stop()

    def _stop_listening(self) -> None:
        unlisten, self._unlisten = self._unlisten, None
        if unlisten is not None:
            unlisten()

    # the program's doings

    @transparent_to_compiler
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
            Recorder.begin_backward, outputs, seeds or (), creates_graph=bool(creates_graph)
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
            self._attempt(Recorder.end_backward, run, returned)
            self.latest = (window, run)
            if len(window.backwards) >= MAX_BACKWARDS:
                # Perhaps no update will ever come.
                self._pause()
        return result

    def before_update(self, optimizer: Any) -> None:
        """An optimizer is about to use the gradients."""
        # Not the first of this step: the next one has not begun yet.
        self._drop_next()
        self._attempt(Recorder.before_update, optimizer)

    def after_update(self, optimizer: Any) -> None:
        """It has."""
        self._attempt(Recorder.after_update, optimizer)

    @never_compile
    def _attempt(self, action: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        recorder = self._recorder
        if recorder is None or self._paused:
            return None
        own = self._session.own
        own.depth += 1
        try:
            return action(recorder, *args, **kwargs)
        except Exception as error:
            self._session.failures.note(action.__name__, error)
            self._discard()
            return None
        finally:
            own.depth -= 1

    # modules

    @never_compile
    def _enter_module(self, module: nn.Module, _inputs: Any) -> None:
        if self._recorder is None:
            return
        if not self._recorder.capture.modules:
            self._at_root_call()
            if self._recorder is None:
                return
            window = self._recorder.window
            looked_at = self.wanted.is_looked_at(window.step)
            if self.evaluations.is_too_long(window):
                if not looked_at:
                    self._pause()
                    return
                # The step itself is wanted, and still to come.
                self._recorder.begin_anew()
        if id(module) not in self._names:
            self._names |= {id(m): name or type(m).__name__ for name, m in module.named_modules()}
        name = self._names[id(module)]
        hooks = module_gradient_hooks(module)
        if hooks:
            self._recorder.window.module_hooks[name] = tuple(map(place_of_hook, hooks))
        self._recorder.enter_module(name)

    @never_compile
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
        if code.co_filename.endswith(COMPILED_FILES) and code.co_name != "__call__":
            return False
        frame = frame.f_back
    return True
