"""Turns what the hooks see into steps of a record."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from lossleuth.observe.guard import guarded
from lossleuth.observe.session import Session
from lossleuth.observe.steps.activations import Activations
from lossleuth.observe.steps.clipping import Clip, value_clip_effect
from lossleuth.observe.steps.instances import Instances
from lossleuth.observe.steps.losses import Losses
from lossleuth.observe.steps.pacing import Pacing
from lossleuth.observe.steps.parameters.table import ParameterTable
from lossleuth.observe.steps.phases import Phases
from lossleuth.observe.steps.recording import Recording
from lossleuth.observe.steps.run_log import RunLog
from lossleuth.observe.steps.step import StepWindow
from lossleuth.observe.steps.tokens.batches import Batches
from lossleuth.observe.steps.trace_origins import Known, SeenSettings, origins
from lossleuth.observe.steps.updates.unseen import UnseenUpdates
from lossleuth.places import reading_place, user_place
from lossleuth.record.write import RecordWriter


class UpdatePhase(enum.Enum):
    """How far the program is in a call of `optimizer.step`."""

    NONE = enum.auto()
    # With a closure, forward and backward are still to come.
    CALLED = enum.auto()
    BEGUN = enum.auto()


class Observer:
    """Listens to the hooks; every listening method is guarded, so that none can hurt the run."""

    def __init__(
        self,
        open_writer: Callable[[], RecordWriter],
        session: Session,
        tape: Sequence[int] = (),
        loss_steps: Sequence[int] = (),
        until: float = math.inf,
        pacing: Pacing | None = None,
        batches: Batches | None = None,
    ) -> None:
        self.session = session
        self.steps = 0
        self.phases = Phases(perf_counter())
        self.made = Instances()
        self._table = ParameterTable()
        self._log = RunLog(open_writer, self._table)
        self._window = StepWindow(0.0)
        self._update = UpdatePhase.NONE
        self.unseen = UnseenUpdates(self._table, self.made.optimizers)
        self._losses = Losses()
        self._batches = batches or Batches()
        self._seen = SeenSettings()
        self._activations = Activations()
        self.recording = Recording.of(
            session, tape, loss_steps, self.model_called, until=until, pacing=pacing
        )
        session.on_close(self.recording.close)

    # batch

    @guarded
    def batch_loaded(self, batch: Any) -> None:
        """A data loader has handed out a batch."""
        self._begin_if_updated()
        self._batches.loaded(batch)
        self.phases.mark(self._window.seconds, "batch")

    @guarded
    def tokens_embedded(self, tokens: Any) -> None:
        """Integers were looked up in a table, with gradients enabled."""
        self._begin_if_updated()
        if self._batches.looked_up(tokens):
            self._batches.look(self._window)

    @guarded
    def targets_used(self, scores: Tensor, targets: Any, ignored: int, reduction: str) -> None:
        """A cross-entropy was taken against class indices, with gradients enabled."""
        self._begin_if_updated()
        if self._batches.compared(scores, targets, ignored, is_mean=reduction == "mean"):
            self._batches.look(self._window)

    # forward and backward

    @guarded
    def backward_begins(self, roots: Sequence[Any], caller: FrameType) -> None:
        """The engine is about to differentiate `roots`."""
        self._begin_if_updated()
        self.made.training_begins()
        self.recording.not_yet(self.steps)
        if self.recording.is_overdue:
            self._end_tape(self.steps)
        window = self._window
        self.phases.mark(window.seconds, "forward")
        window.backwards += 1
        if window.is_sampled:
            self._note_place("backward", caller)
        self._batches.end_micro_batch(window)
        for root in roots:
            loss = self._losses.of(root)
            if loss is not None:
                window.losses.append(loss)
        self.unseen.backward_begins(roots)

    @guarded
    def backward_ends(self) -> None:
        """The engine has run, and no optimizer has made an update yet."""
        self._table.before_hand_update()
        if not self.made.optimizers:
            self.recording.begin(self.steps + 1, patient=True)

    @guarded
    def step_compiled(self, optimizer: torch.optim.Optimizer) -> None:
        """`optimizer.step` is being compiled with the program, and will not be seen."""
        self._table.follow(optimizer)

    @guarded
    def loss_scaled(self, scaler: Any, loss: Any, scaled: Any) -> None:
        """A loss was multiplied by a scaler's factor, and may be beyond its format now."""
        if scaler.is_enabled() and isinstance(loss, Tensor):
            self._begin_if_updated()
            self._window.loss_scale = float(scaler.get_scale())
            self._losses.scaled(loss, scaled)

    # clip

    @guarded
    def clipped(self, norm: Any, limit: float, caller: FrameType) -> None:
        """Gradients were clipped by norm; `norm` is what it was."""
        window, limit = self._window, float(limit)
        window.clips.append(Clip(self._losses.kept(norm), limit))
        self._seen.limits.add(limit)
        if window.is_sampled:
            self._note_place("clip", caller)
        self.phases.mark(window.seconds, "clip")

    @guarded
    def about_to_clip_by_value(
        self, parameters: Sequence[Tensor], limit: float, caller: FrameType
    ) -> None:
        """Gradients will be clipped element by element."""
        if self._window.is_sampled:
            self._note_place("clip", caller)
        norm, cosine = value_clip_effect(parameters, float(limit))
        self._window.clips.append(Clip(norm, float(limit), by_value=True, cosine=cosine))

    # update

    @guarded
    def step_called(self, optimizer: torch.optim.Optimizer) -> None:
        """`optimizer.step` was called; with a closure, forward and backward are still to come."""
        if id(optimizer) in self._window.optimizers:
            self._close()
        self._update = UpdatePhase.CALLED

    @guarded
    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to use the gradients."""
        self.phases.mark(self._window.seconds, "other")
        # A closure may be called again and again in one step; the first time is its beginning.
        if self._update is UpdatePhase.CALLED:
            self._table.before_update(optimizer)
            self.recording.before_update(optimizer)
            self._update = UpdatePhase.BEGUN

    @guarded
    def update_ends(self, optimizer: torch.optim.Optimizer, caller: FrameType) -> None:
        """An optimizer has made its update."""
        if self._update is UpdatePhase.NONE:
            # One `step` inside another, as by `super().step()`: the inner one was measured.
            return
        window = self._window
        if self._update is UpdatePhase.BEGUN:
            self._update = UpdatePhase.NONE
        window.optimizers.add(id(optimizer))
        self.unseen.optimizer_updated()
        if window.is_sampled:
            self._note_place("update", caller)
        window.updated_by.append(type(optimizer).__name__)
        groups = optimizer.param_groups
        window.rates += [float(group.get("lr", math.nan)) for group in groups]
        self._seen.add_rates(window.rates)
        betas = groups[0].get("betas")
        window.betas = (float(betas[0]), float(betas[1])) if betas else None
        known = len(self._table.trainees.known)
        window.trained.append(self._table.after_update(optimizer))
        if len(self._table.trainees.known) > known:
            self._begin_phase()
        self.recording.after_update(optimizer)
        # All that follows an update belongs to the next step, its batch included.
        self.recording.begin(self.steps + 1)
        self.phases.mark(window.seconds, "update")

    @guarded
    def optimizer_made(self, optimizer: torch.optim.Optimizer, calls: Hashable) -> None:
        """The program has made an optimizer; these calls led to it."""
        names = self._table.parameters.name_of
        groups = optimizer.param_groups
        new = any(names(p) is None for group in groups for p in group["params"][:1])
        if self._table.trainees.made(optimizer, calls) or new:
            self.recording.wanted.new_phase(self.steps)
        if new and self._window.updated:
            # With an optimizer there, the model is there: its first step may begin.
            self.recording.begin_again(self.next_step)
            self.recording.begin(self.next_step)

    def _begin_phase(self) -> None:
        """Something is trained that was not before: count its tokens by themselves."""
        number = len(self._table.trainees.known) - 1
        self._log.event("trainee", {"number": number, "kind": self._table.trainees.known[-1].kind})
        if self.steps:
            self.recording.wanted.new_phase(self.steps)
        if self.recording.wanted.is_late(self.steps):
            self._log.event("floors", self._batches.floors())
            self._batches.count_anew()

    @guarded
    def update_skipped(self, by: str) -> None:
        """An update was asked for and not made."""
        self._window.skipped_by.append(by)

    # what the user reads

    @guarded
    def value_read(self, tensor: Any, value: Any, caller: FrameType) -> None:
        """A tensor's value was taken out of torch; it counts where the user's code did it."""
        if tensor.dim() == 0 and tensor.is_floating_point():
            place = reading_place(caller)
            if place is not None:
                self._window.read(value, place)
                self.recording.wanted.read(place, self.steps)

    @guarded
    def model_called(self) -> None:
        """An outermost module is called (only while a step is being recorded)."""
        self._begin_if_updated()

    @guarded
    def module_returned(self, module: torch.nn.Module, output: Tensor) -> None:
        """A module has returned a tensor (only where activations are wanted)."""
        self._activations.add(module, output)

    # steps

    @property
    def next_step(self) -> int:
        """The number of the step that whatever comes next belongs to."""
        return self.steps + self._window.updated

    def _begin_if_updated(self) -> None:
        """Close the step before, if what happens now belongs to the next."""
        if self._update is not UpdatePhase.NONE:
            return
        if not self._window.updated:
            found = self.unseen.found()
            if found:
                self._window.updated_by += found
                self._window.trained.append(self._table.number_by_hand())
        if self._window.updated:
            self._close()

    def _note_place(self, phase: str, caller: FrameType) -> None:
        """Which line of the user's makes this part of a step; only asked in sampled steps."""
        self._window.places.setdefault(phase, user_place(caller) or "")

    def _close(self) -> None:
        window, now = self._window, perf_counter()
        self.phases.close(window.seconds, now)
        self._batches.end_micro_batch(window)
        # First this: what is measured from now on, in another thread, may be of new parameters.
        measured = self._table.take_measured()
        self._log.declare_parameters()
        self._log.declare_settings(self.made, self.steps)
        own = self.phases.take_own(self.session.own_seconds)
        now -= self.phases.run_began
        number, self.steps = self.steps, self.steps + 1
        self._batches.end_step(number)
        self._window = StepWindow(now, self.recording.wanted.is_sampled(self.steps))
        self._log.add(number, window, now, own, measured)
        self._end_tape(number)
        self.recording.at_step(self.steps)
        self.recording.begin(self.steps)
        if self._activations:
            self._log.event("activations", self._activations.take(number))

    def _end_tape(self, step: int) -> None:
        found = self.recording.end(step, self._table.parameters.name_of)
        if found is not None:
            self._log.event(found.part, found.plain())

    @guarded
    def write_event(self, kind: str, data: dict[str, Any]) -> None:
        """Something about the run that is not a step."""
        self._log.event(kind, data)

    @guarded
    def trace_origins(self, files: Sequence[str]) -> None:
        """Say which of these files the first weights and tokens stand in."""
        self._log.event("floors", self._batches.floors())
        schedulers = list(self.made.schedulers)
        known = Known(self._table.parameters.samples, self._batches, self._seen, schedulers)
        self._log.event("origins", origins(known, files))

    @guarded
    def finish(self, reason: dict[str, Any]) -> None:
        """The run is over: close the last step and the record."""
        self._begin_if_updated()
        # Also a step whose update never came.
        self._end_tape(self.steps)
        if not self._window.empty:
            self._log.event("unfinished", self.unseen.missing(self._window, self.made.places))
        self._batches.close()
        failures = self.session.failures.sentence()
        self._log.end(
            reason
            | {
                "steps": self.steps,
                "own_seconds": self.session.own_seconds,
                "evaluated": self.recording.evaluations.surely,
                "scheduled": self.made.schedules(),
                "planned": self.made.planned(),
                "made_before_training": self.made.before_training,
            }
            | ({"failures": failures} if failures else {})
        )
