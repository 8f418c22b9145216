"""Runs of a step function in this very process: for notebooks and tests.

Every run starts from the same weights and the same state of the optimizer, which are restored at
the end.
"""

from __future__ import annotations

import copy
import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from lossleuth.files import make_directory
from lossleuth.observe.child.watch import Watch
from lossleuth.observe.launch.executor import RunOutcome, RunSpec
from lossleuth.observe.stop import InterventionFailed, StopRun

Step = Callable[[Any, Any, Any], object]


class InProcess:
    """Carries out plans with a step function, one after the other."""

    def __init__(
        self, step: Step, model: torch.nn.Module, optimizer: Any, batches: Iterable[Any]
    ) -> None:
        self._step = step
        self._model = model
        self._optimizer = optimizer
        self._batches = list(batches)
        self._weights = copy.deepcopy(model.state_dict())
        self._state = copy.deepcopy(optimizer.state_dict())
        self._wanting = [p.requires_grad for p in model.parameters()]

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = float("inf"),
        on_finished: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        """Carry out all plans for which there is time; random states are restored afterwards."""
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()
        try:
            return self._carry_out_all(plans, until, on_finished)
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_rng_state(states[2])

    def load_no_more(self) -> None:
        """Nothing is ever loaded apart."""

    def _carry_out_all(
        self, plans: Sequence[RunSpec], until: float, on_finished: Callable[[RunOutcome], None]
    ) -> list[RunOutcome]:
        found = []
        for plan in plans:
            if time.monotonic() >= until:
                finished = RunOutcome(plan, None, 0.0, "no time left")
            else:
                finished = self._carry_out(plan, until)
            on_finished(finished)
            found.append(finished)
        return found

    def _carry_out(self, plan: RunSpec, until: float) -> RunOutcome:
        began = time.monotonic()
        make_directory(plan.directory)
        request = plan.request_for({"script": None}, os.getpid(), until=until)
        watch = Watch(request, main=True)
        self._restore()
        torch.manual_seed(plan.seed_shift)
        ending: dict[str, Any] = {"how": "end of batches"}
        count = len(self._batches)
        try:
            # It is finished below, so it need not wait for the process to exit.
            watch.start(until_exit=False)
            watch.adopt(self._optimizer)
            for number in range(max(count, plan.steps or 0) if count else 0):
                # Each seed starts at another batch; batches repeat if there are too few.
                self._step(
                    self._model, self._optimizer, self._batches[(number + plan.seed_shift) % count]
                )
        except StopRun:
            ending = {"how": "stopped"}
        except InterventionFailed as failure:
            ending = {"how": "intervention failed", "error": str(failure)}
        except BaseException as error:
            ending = {"how": "exception", "error": f"{type(error).__name__}: {error}"}
            raise
        finally:
            watch.finish(ending)
            self._restore()
        return RunOutcome(plan, 0, time.monotonic() - began)

    def _restore(self) -> None:
        self._model.load_state_dict(self._weights)
        self._optimizer.load_state_dict(copy.deepcopy(self._state))
        for parameter, wants in zip(self._model.parameters(), self._wanting, strict=True):
            parameter.requires_grad_(wants)
            parameter.grad = None
