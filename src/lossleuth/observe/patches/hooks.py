"""Installs the replacements of torch functions while a program is watched.

Nothing here computes; a hook tells the observer what happened and calls the original with the
arguments it was given.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.interventions.intervention import Intervention
from lossleuth.observe.module_hooks import listen_to_modules
from lossleuth.observe.patches.interventions import Intervening
from lossleuth.observe.patches.rebind_importers import reach_importers
from lossleuth.observe.patches.token_listeners import lookup_listeners
from lossleuth.observe.patches.transparent import seeing
from lossleuth.observe.patches.wrappers import (
    clipping_by_norm,
    clipping_by_value,
    loading,
    module_listener,
    reading,
    scaling,
)
from lossleuth.observe.seeds import shift_seeds
from lossleuth.observe.steps.observer import Observer
from lossleuth.observe.steps.trainees import calls_of_user
from lossleuth.observe.stop import Limit, StopRun
from lossleuth.places import user_place
from lossleuth.tape.capture.compiler_marks import (
    compiling,
    constant_for_compiler,
    ends_the_graph,
    never_compile,
    transparent_to_compiler,
)
from lossleuth.torch_internals import (
    RUN_BACKWARD,
    LoaderIterator,
    is_traced,
    run_backward_function,
)

SCALAR_READERS = ("item", "tolist", "__float__", "__int__", "__index__", "numpy")


class Hooks:
    """Installs everything; the session removes it again."""

    def __init__(
        self,
        observer: Observer,
        *,
        activations: bool = False,
        interventions: Sequence[Intervention] = (),
        from_step: int = 0,
        limit: Limit | None = None,
        seed_shift: int | None = None,
        begins: bool = True,
    ) -> None:
        self._observer = observer
        self._session = observer.session
        # Nesting depth of the autograd engine.
        self._depth = 0
        self._stepped = 0
        self._activations = activations
        self._changes = Intervening(interventions, observer.recording, observer.session, from_step)
        self._from_step = from_step
        self._limit = limit or Limit()
        self._seed_shift = seed_shift
        # Whether the program begins now, or goes on from where it was forked.
        self._begins = begins
        self._backwards = 0
        # Ends the record and the process if the script refuses to stop.
        self.give_up: Callable[[], None] = lambda: None

    def install(self) -> None:
        """Patch torch; a patch that fails is noted, and the others still work."""
        for name, patch in {
            "backward": self._patch_backward,
            "optimizers": self._patch_optimizers,
            "clipping": self._patch_clipping,
            "loss scaling": self._patch_scaler,
            "lookups": self._patch_lookups,
            "reads": self._patch_reads,
            "data loaders": self._patch_loader,
            "modules": self._patch_modules,
            "trials": self._patch_for_trials,
        }.items():
            self._session.attempt(name, patch)
        self._session.on_close(reach_importers(self._session.replaced))

    def adopt(self, optimizer: Any) -> None:
        """Register an optimizer made before the patches."""
        self._observer.made.optimizers.add(optimizer)
        self._changes.optimizer_made(optimizer)
        self._observer.recording.begin(0)

    def adopt_made(self, instance: Any, place: str, calls: Hashable) -> None:
        """Register an optimizer or a schedule that the program made before it was forked."""
        made = self._observer.made
        made.places[instance] = place
        if isinstance(instance, torch.optim.Optimizer):
            self.adopt(instance)
            self._observer.optimizer_made(instance, calls)
        else:
            made.schedulers.add(instance)

    # backward

    def _patch_backward(self) -> None:
        """One choke point for `backward`, `autograd.backward` and `autograd.grad`."""
        original = run_backward_function()
        if original is None:
            raise NotImplementedError(f"this torch has no autograd.{RUN_BACKWARD}")
        is_without_values = never_compile(is_traced)
        observer, session = self._observer, self._session

        @transparent_to_compiler
        @functools.wraps(original)
        def run_backward(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
            # Checkpointing runs the engine inside the engine; that is part of one backward.
            within = compiling() or self._depth or session.is_ours
            if within or any(map(is_without_values, t_outputs)):
                return original(t_outputs, *args, **kwargs)
            observer.backward_begins(t_outputs, sys._getframe(1))
            self._backwards += 1
            self._stop_in_time()
            self._changes.backward_begins(t_outputs)
            self._depth += 1
            try:
                return observer.recording.run_backward(original, t_outputs, args, kwargs)
            finally:
                self._depth -= 1
                observer.phases.backward_ended = perf_counter()
                if observer.unseen.are_looked_for:
                    observer.backward_ends()
                self._changes.backward_ends()

        self._session.replace(torch.autograd, RUN_BACKWARD, run_backward)

    # optimizers

    def _patch_optimizers(self) -> None:
        from torch.optim.lr_scheduler import LRScheduler
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        before, after = self._before_step, self._after_step
        if not self._changes:
            before, after = self._unless_compiled(before), self._unless_compiled(after)
        self._session.on_close(register_optimizer_step_pre_hook(before).remove)
        self._session.on_close(register_optimizer_step_post_hook(after).remove)
        self._remember_instances(torch.optim.Optimizer, self._observer.made.optimizers)
        self._remember_instances(LRScheduler, self._observer.made.schedulers)

    def _unless_compiled(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """`hook`, but where it would end a graph of the compiler that goes on without us.

        A step that is in such a graph is seen as an update that the program makes itself.
        """
        observer = self._observer

        @constant_for_compiler
        def is_seen(optimizer: Any) -> bool:
            seen = ends_the_graph(type(optimizer).step)
            if not seen:
                observer.step_compiled(optimizer)
            return seen

        @transparent_to_compiler
        def called(optimizer: Any, args: Any, kwargs: Any) -> Any:
            if compiling() and not is_seen(optimizer):
                return None
            return hook(optimizer, args, kwargs)

        return called

    def _remember_instances(self, kind: type[Any], instances: weakref.WeakSet[Any]) -> None:
        original = kind.__init__
        observer, session = self._observer, self._session
        recording, places = observer.recording, observer.made.places

        @never_compile
        def noted(instance: Any) -> None:
            if not session.is_ours:
                observer.made.count += 1
                instances.add(instance)
                places[instance] = user_place(sys._getframe()) or ""

        @never_compile
        def made(instance: Any) -> None:
            if session.is_ours:
                return
            if isinstance(instance, torch.optim.Optimizer):
                self._changes.step_reached(observer.next_step, observer.made.optimizers)
                self._changes.optimizer_made(instance)
                observer.optimizer_made(instance, calls_of_user(sys._getframe(1)))
            # With an optimizer there, the model is there: the first step may begin.
            if not self._observer.steps:
                recording.begin(0)

        @transparent_to_compiler
        @functools.wraps(original)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            noted(self)
            original(self, *args, **kwargs)
            made(self)

        self._session.replace(kind, "__init__", init)

    @never_compile
    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if self._session.is_ours:
            return None
        closure = kwargs.get("closure") or next(filter(callable, args[1:]), None)
        self._observer.step_called(optimizer)
        if not self._backwards:
            # Gradients computed by hand: there is no backward pass to stop at.
            self._stop_in_time()
        if closure is None:
            self._changes.before_update(optimizer)
            self._observer.update_begins(optimizer)
            return None

        # Lightning and LBFGS run forward and backward inside `step`: look after the closure.
        calls = 0

        @never_compile
        def looked() -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                # A second call is part of the update.
                self._changes.before_update(optimizer)
            self._observer.update_begins(optimizer)

        @transparent_to_compiler
        @functools.wraps(closure)
        def observed() -> Any:
            value = closure()
            looked()
            return value

        swapped = tuple(observed if a is closure else a for a in args)
        return swapped, {k: observed if v is closure else v for k, v in kwargs.items()}

    @never_compile
    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._session.is_ours:
            return
        self._stepped += 1
        self._changes.after_update(optimizer)
        self._observer.update_ends(optimizer, sys._getframe())

    # clipping

    def _patch_clipping(self) -> None:
        from torch.nn.utils import clip_grad

        by_norm = clipping_by_norm(clip_grad.clip_grad_norm_, self._observer)
        by_value = clipping_by_value(clip_grad.clip_grad_value_, self._observer)
        for owner in (clip_grad, nn.utils):
            self._session.replace(owner, "clip_grad_norm_", by_norm)
            self._session.replace(owner, "clip_grad_value_", by_value)

    # loss scaling

    def _patch_scaler(self) -> None:
        scaler = torch.amp.GradScaler
        original = scaler.step
        observer = self._observer

        @transparent_to_compiler
        @functools.wraps(original)
        def step(grad_scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling():
                return original(grad_scaler, optimizer, *args, **kwargs)
            before = self._stepped
            result = original(grad_scaler, optimizer, *args, **kwargs)
            if self._stepped == before:
                observer.update_skipped("GradScaler")
            return result

        self._session.replace(scaler, "step", step)
        self._session.replace(scaler, "scale", scaling(scaler.scale, observer))

    # tokens and targets

    def _patch_lookups(self) -> None:
        saw_embedding, saw_targets = lookup_listeners(self._observer)
        self._session.replace(F, "embedding", seeing(F.embedding, saw_embedding))
        # cross_entropy does not go through nll_loss, so a target is never seen twice.
        self._session.replace(F, "cross_entropy", seeing(F.cross_entropy, saw_targets))
        self._session.replace(F, "nll_loss", seeing(F.nll_loss, saw_targets))

    # numbers that the user's code reads

    def _patch_reads(self) -> None:
        for name in SCALAR_READERS:
            self._session.replace(Tensor, name, reading(getattr(Tensor, name), self._observer))

    # data loaders

    def _patch_loader(self) -> None:
        if LoaderIterator is None:
            raise NotImplementedError("this torch's data loaders have no iterator of one kind")
        following = loading(LoaderIterator.__next__, self._observer)
        self._session.replace(LoaderIterator, "__next__", following)

    # trials: other seeds, one change, an end

    def _patch_for_trials(self) -> None:
        if self._seed_shift is not None:
            shift_seeds(self._seed_shift, self._session.replace, begins=self._begins)
        self._changes.install(self._session.replace)
        self._observer.unseen.when_found = self._changes.updated_by_hand
        observer = self._observer
        if self._from_step:
            observer.recording.at_step = lambda step: self._changes.step_reached(
                step, observer.made.optimizers
            )
        if self._changes.wants_tape:
            observer.recording.wanted.want_all(self._from_step)

    @never_compile
    def _stop_in_time(self) -> None:
        if self._limit.is_reached(self._observer.steps, self._backwards):
            if self._limit.is_ignored():
                self.give_up()
            raise StopRun

    # activations, on demand

    def _patch_modules(self) -> None:
        if self._activations:
            self._session.on_close(listen_to_modules(module_listener(self._observer)))
