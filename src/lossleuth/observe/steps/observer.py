"""Turns what the hooks see into steps of a record."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from lossleuth.native.handles import handles
from lossleuth.observe.failures import Failures
from lossleuth.observe.guard import guarded
from lossleuth.observe.sampling import is_sampled
from lossleuth.observe.steps.activations import Activations
from lossleuth.observe.steps.clipping import Clip, kept, value_clip_effect
from lossleuth.observe.steps.evaluations import Evaluations, kind_of
from lossleuth.observe.steps.parameters.readings import READINGS
from lossleuth.observe.steps.parameters.table import ParameterTable
from lossleuth.observe.steps.phases import Phases
from lossleuth.observe.steps.recording import Recording
from lossleuth.observe.steps.settings import ChangedSettings, resolved_settings
from lossleuth.observe.steps.step import StepWindow
from lossleuth.observe.steps.step_writer import ClosedStep, ClosedSteps
from lossleuth.observe.steps.tokens.batches import Batches
from lossleuth.observe.steps.trace_origins import Known, origins
from lossleuth.observe.steps.updates.missing_update import unfinished
from lossleuth.observe.steps.updates.unseen import UnseenUpdates
from lossleuth.places import reading_place, user_place
from lossleuth.probes.look import Places, look_at, look_at_loss
from lossleuth.record.write import RecordWriter
from lossleuth.tape.window import Window

# Rates that are remembered, to look for in files at the end.
MOST_RATES = 512


class Observer:
    """Listens to the hooks; every listening method is guarded, so that none can hurt the run."""

    def __init__(
        self,
        open_writer: Callable[[], RecordWriter],
        failures: Failures,
        tape: Sequence[int] = (),
        loss_steps: Sequence[int] = (),
    ) -> None:
        self.failures = failures
        self.own_seconds = 0.0
        self.steps = 0
        self._open_writer = open_writer
        self._writer: RecordWriter | None = None
        self._opening = threading.RLock()
        # On the clock of `perf_counter`; the record counts from the first of them.
        self._began = perf_counter()
        self.phases = Phases(self._began)
        self._window = StepWindow(0.0)
        self._torch = handles()
        self._table = ParameterTable()
        # Those that have made an update, by their identity.
        self.optimizers = self._table.known
        self._closed = ClosedSteps(lambda: self.writer, self._table)
        self._declared = 0
        self._changed = ChangedSettings()
        self.made_optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.made_schedulers: weakref.WeakSet[Any] = weakref.WeakSet()
        # Where in the user's code each was made.
        self.made_at: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.unseen = UnseenUpdates(self._table, self.made_optimizers)
        self._updating = 0
        self._within_update = False
        self._batches = Batches()
        self._rates_seen: set[float] = set()
        self._limits_seen: set[float] = set()
        self._unscaled: tuple[Callable[[], Any], Any] = (lambda: None, None)
        self._activations = Activations()
        self._own_before = 0.0
        only_loss, places, seen = set(loss_steps) - set(tape), Places(), Evaluations(tape)

        def look(window: Window) -> dict[str, Any]:
            return look_at_loss(window) if window.step in only_loss else look_at(window, places)

        self.recording = Recording({*tape, *loss_steps}, look, self.model_called, failures, seen)
        # Told when the program was seen to update its parameters itself.
        self.hand_updated: Callable[[], None] = lambda: None

    @property
    def writer(self) -> RecordWriter:
        """The record, opened when there is something to write."""
        if self._writer is None:
            # Once, also where several threads train.
            with self._opening:
                self._writer = self._writer or self._open_writer()
        return self._writer

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
    def targets_used(self, scores: Tensor, targets: Any, ignored: int) -> None:
        """A cross-entropy was taken against class indices, with gradients enabled."""
        self._begin_if_updated()
        if self._batches.compared(scores, targets, ignored):
            self._batches.look(self._window)

    # forward and backward

    @guarded
    def backward_begins(self, roots: Sequence[Any], caller: FrameType) -> None:
        """The engine is about to differentiate `roots`."""
        self._begin_if_updated()
        self.recording.not_yet(self.steps)
        if self.recording.is_overdue:
            self._end_tape(self.steps)
        window = self._window
        self.phases.mark(window.seconds, "forward")
        window.backwards += 1
        if window.is_sampled:
            self._note_place("backward", caller)
        self._batches.look(window)
        window.end_micro_batch()
        for root in roots:
            if isinstance(root, Tensor) and root.numel() == 1:
                scaled, unscaled = self._unscaled
                loss = unscaled if scaled() is root else kept(root, self._torch)
                if loss is not None:
                    window.losses.append(loss)
        self.unseen.backward_begins(roots)

    @guarded
    def backward_ends(self) -> None:
        """The engine has run, and no optimizer has made an update yet."""
        self._table.before_hand_update()
        if not self.made_optimizers:
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
            self._unscaled = (weakref.ref(scaled), kept(loss))

    # clip

    @guarded
    def clipped(self, norm: Any, limit: float, caller: FrameType) -> None:
        """Gradients were clipped by norm; `norm` is what it was."""
        window, limit = self._window, float(limit)
        window.clips.append(Clip(kept(norm, self._torch), limit))
        self._limits_seen.add(limit)
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
        self._updating = id(optimizer)

    @guarded
    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to use the gradients."""
        self.phases.mark(self._window.seconds, "other")
        # A closure may be called again and again in one step; the first time is its beginning.
        if self._updating:
            self._table.before_update(optimizer)
            self.recording.before_update(optimizer)
            self._updating = 0
            self._within_update = True

    @guarded
    def update_ends(self, optimizer: torch.optim.Optimizer, caller: FrameType) -> None:
        """An optimizer has made its update."""
        if not self._within_update and not self._updating:
            # One `step` inside another, as by `super().step()`: the inner one was measured.
            return
        window = self._window
        self._within_update = False
        window.optimizers.add(id(optimizer))
        self.unseen.optimizer_updated()
        if window.is_sampled:
            self._note_place("update", caller)
        window.updated_by.append(type(optimizer).__name__)
        groups = optimizer.param_groups
        window.rates += [float(group.get("lr", math.nan)) for group in groups]
        if len(self._rates_seen) < MOST_RATES:
            self._rates_seen.update(window.rates)
        betas = groups[0].get("betas")
        window.betas = (float(betas[0]), float(betas[1])) if betas else None
        self._table.after_update(optimizer)
        self.recording.after_update(optimizer)
        # All that follows an update belongs to the next step, its batch included.
        self.recording.begin(self.steps + 1)
        self.phases.mark(window.seconds, "update")

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

    @guarded
    def model_called(self) -> None:
        """An outermost module is called (only while a step is being recorded)."""
        self._begin_if_updated()

    @guarded
    def module_returned(self, module: torch.nn.Module, output: Tensor) -> None:
        """A module has returned a tensor (only where activations are wanted)."""
        self._activations.add(module, output)

    # steps

    def _begin_if_updated(self) -> None:
        """Close the step before, if what happens now belongs to the next."""
        if self._updating or self._within_update:
            return
        if not self._window.updated and self.unseen.are_looked_for:
            for by in self._table.hand_updates():
                self._window.updated_by.append(by)
                self.hand_updated()
        if self._window.updated:
            self._close()

    def _note_place(self, phase: str, caller: FrameType) -> None:
        """Which line of the user's makes this part of a step; only asked in sampled steps."""
        self._window.places.setdefault(phase, user_place(caller) or "")

    def _close(self) -> None:
        window, now = self._window, perf_counter()
        self.phases.close(window.seconds, now)
        self._batches.look(window)
        window.end_micro_batch()
        # First this: what is measured from now on, in another thread, may be of new parameters.
        measured = self._table.take_measured()
        self._declare_parameters()
        self._declare_settings()
        own, self._own_before = self.own_seconds - self._own_before, self.own_seconds
        now -= self._began
        number, self.steps = self.steps, self.steps + 1
        self._window = StepWindow(now, is_sampled(self.steps))
        self._closed.add(ClosedStep(number, window, now, own, measured))
        self._end_tape(number)
        self.recording.begin(self.steps)
        if self._activations:
            self._event("activations", self._activations.take(number))

    def _end_tape(self, step: int) -> None:
        found = self.recording.end(step, self._table.name_of)
        if found is not None:
            self._event(kind_of(found), found)

    def _event(self, kind: str, data: dict[str, Any]) -> None:
        self._closed.write()
        self.writer.event(kind, data)

    def _declare_parameters(self) -> None:
        if self._table.version != self._declared:
            self._declared, names, sizes = self._table.declared()
            # Those that ended before know nothing of the new ones.
            self._closed.write()
            self.writer.parameters(names, sizes, READINGS)
            self._closed.rows = len(names)

    def _declare_settings(self) -> None:
        optimizers = self._changed.optimizers(self._table, self.steps)
        if optimizers is not None:
            settings = resolved_settings(optimizers, list(self.made_schedulers), self.made_at)
            idle = [type(o).__name__ for o in self.made_optimizers if o not in optimizers]
            seed = {"torch_seed": torch.initial_seed()}
            self._event("settings", settings | {"idle_optimizers": idle} | seed)

    @guarded
    def write_event(self, kind: str, data: dict[str, Any]) -> None:
        """Something about the run that is not a step."""
        self._event(kind, data)

    @guarded
    def trace_origins(self, files: Sequence[str]) -> None:
        """Say which of these files the first weights and tokens stand in."""
        self._event("floors", self._batches.floors())
        rates, limits = sorted(self._rates_seen), sorted(self._limits_seen)
        known = Known(self._table.samples, self._batches, rates, limits, [*self.made_schedulers])
        self._event("origins", origins(known, files))

    @guarded
    def finish(self, reason: dict[str, Any]) -> None:
        """The run is over: close the last step and the record."""
        self._begin_if_updated()
        # Also a step whose update never came.
        self._end_tape(self.steps)
        if not self._window.empty:
            made = self.made_optimizers, self.made_at
            self._event("unfinished", unfinished(self._window, *made, self.unseen.resting))
        summary: dict[str, Any] = {"steps": self.steps, "own_seconds": self.own_seconds}
        summary["evaluated"] = self.recording.evaluations.surely
        summary["scheduled"] = [
            [type(s).__name__, int(getattr(s, "last_epoch", -1))] for s in self.made_schedulers
        ]
        if self.failures.count:
            summary["failures"] = self.failures.sentence()
        self._closed.write()
        self.writer.end(reason | summary)
