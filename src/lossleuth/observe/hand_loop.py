"""Finding the steps of a program that trains without autograd: it writes to the same tensors again.

Every operation passes through here. Tensors that are written to again and again, at the same line,
are the loop's; the longest stretch without such a write is the forward pass, so that a step begins
where it does.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _python_dispatch as dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from lossleuth.observe.failures import Failures
from lossleuth.observe.limit import Limit, StopRun
from lossleuth.tape.contents import memory_of, written_tensors
from lossleuth.tape.frames import place_of
from lossleuth.tape.neutral import neutral
from lossleuth.tape.recorder import Recorder
from lossleuth.tape.schemas import short_name
from lossleuth.tape.window import Window

# A write that was made so often is one of the loop's.
FEWEST = 3
# Memory that is kept, so that its address is not used again while the loop is not yet known.
MOST_HELD = 512
MOST_TRIES = 40
MOST_LINKS = 20_000
# Operations without a write that comes again, after which no more is expected.
PATIENCE = 10_000


class Write(NamedTuple):
    """A write to a piece of memory, at a line."""

    memory: int | None
    offset: int
    file: str
    line: int
    operation: str


class HandLoop(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped base
    """Counts steps, records some of them, and reads the loss where it is known."""

    def __init__(
        self,
        steps: Collection[int],
        limit: Limit,
        look: Callable[[Window], dict[str, Any]],
        told: Callable[[str, dict[str, Any]], None],
        failures: Failures,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped base
        self.steps = 0
        self._asked = frozenset(steps)
        self._wanted = set(steps)
        # Windows that no loss was found in.
        self._tries = 0
        # Steps that are not sure yet.
        self._rows: list[dict[str, Any]] = []
        self._limit = limit
        self._look = look
        self._told = told
        self._failures = failures
        self._looking = False
        self._operations = 0
        self._cycle = _Cycle()
        self._chains = _Chains()
        # Whether tensors are followed that take each other's place.
        self._follows = False
        self._recorder: Recorder | None = None
        self._loss_key: tuple[str | None, str] | None = None
        self._loss: float | None = None
        self._began = time.monotonic()

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Carry out an operation, and see what it means for the loop."""
        out = func(*args, **(kwargs or {}))
        if not self._looking:
            self._looking = True
            try:
                self._saw(func, args, kwargs or {}, out)
            except StopRun:
                raise
            except Exception as error:
                self._failures.note("hand_loop", error)
            finally:
                self._looking = False
        return out

    def _saw(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        self._operations += 1
        if self._operations % 512 == 0:
            self._stop_in_time()
        if self._loss_key is not None and isinstance(out, Tensor) and out.numel() == 1:
            place, _ = place_of()
            if (None if place is None else str(place), short_name(func)) == self._loss_key:
                with dispatch._disable_current_modes():
                    self._loss = float(out)
        for tensor in written_tensors(func, args, kwargs):
            if tensor.is_floating_point() and tensor.dim():
                self._wrote(tensor, short_name(func))
        if self._operations == PATIENCE:
            self._follows = not self._cycle.comes_again
        if self._follows and isinstance(out, Tensor):
            self._follow(func, args, out)

    def _follow(self, func: OpOverload, args: tuple[Any, ...], out: Tensor) -> None:
        """A tensor that is made anew of what the same line made before is as good as written to."""
        place, by_user = place_of()
        if place is None or not by_user or not out.dim() or not out.is_floating_point():
            return
        at = (place.file, place.line, short_name(func))
        before = [self._chains.of(a, at) for a in args if isinstance(a, Tensor)]
        chain = next((c for c in before if c is not None), None)
        number = self._chains.put(out, at, chain)
        if chain is not None:
            self._noted(Write(-number, 0, *at), out)

    def _wrote(self, tensor: Tensor, operation: str) -> None:
        place, by_user = place_of()
        if place is None or not by_user:
            return
        offset = int(tensor.storage_offset())
        self._noted(Write(memory_of(tensor), offset, place.file, place.line, operation), tensor)

    def _noted(self, write: Write, tensor: Tensor) -> None:
        turns = self._cycle.beginnings
        is_boundary = self._cycle.is_boundary(write, tensor, self._operations)
        if self._cycle.beginnings != turns:
            self._begin_again()
        if is_boundary:
            self._step_ends()

    def _begin_again(self) -> None:
        """What seemed to be the loop is only a part of it: nothing was a step so far."""
        if self._recorder is not None:
            self._recorder.stop()
            self._recorder = None
        self.steps, self._rows = 0, []
        self._wanted = set(self._asked)

    def _step_ends(self) -> None:
        if self._recorder is not None:
            self._end_window(self._recorder)
        now = time.monotonic()
        row: dict[str, Any] = {"step": self.steps, "seconds": now - self._began}
        if self._loss is not None:
            row["loss"] = self._loss
        self._began, self._loss = now, None
        self._rows.append(row)
        self._tell_rows()
        self.steps += 1
        self._stop_in_time()
        if self.steps in self._wanted:
            self._wanted.discard(self.steps)
            self._recorder = Recorder(self.steps)
            self._recorder.start()

    def _tell_rows(self) -> None:
        """Steps are told once it is sure that they are: a loss was found in one."""
        if self._loss_key is not None:
            for row in self._rows:
                self._told("step", row)
            self._rows = []

    def _end_window(self, recorder: Recorder) -> None:
        self._recorder = None
        recorder.stop()
        # Whoever looks computes as well, and no loop is to be found in that.
        with dispatch._disable_current_modes(), neutral(wide=False, gradients=True):
            found = self._look(recorder.window)
        step = found.get("hand_step")
        if step is None:
            if self._tries < MOST_TRIES:
                self._tries += 1
                self._wanted.add(self.steps + 2)
            return
        self._loss_key = (step["loss_place"], step["loss_operation"])
        self._loss = step["loss"]
        self._cycle.settle()
        self._tell_rows()
        self._told("tape", {"step": recorder.window.step} | found)

    def _stop_in_time(self) -> None:
        if self._limit.is_reached(self.steps, self.steps + 1):
            raise StopRun


class _Chains:
    """Tensors that were made of one another at the same line, turn by turn."""

    def __init__(self) -> None:
        self._links: dict[int, tuple[weakref.ref[Tensor], tuple[str, int, str], int]] = {}
        self._count = 0

    def of(self, tensor: Tensor, at: tuple[str, int, str]) -> int | None:
        """The chain that a tensor is the last link of, if it was made there."""
        found = self._links.get(id(tensor))
        if found is None or found[0]() is not tensor or found[1] != at:
            return None
        return found[2]

    def put(self, tensor: Tensor, at: tuple[str, int, str], chain: int | None) -> int:
        """Make a tensor the last link of a chain, or the first of a new one."""
        if chain is None:
            self._count += 1
            chain = self._count
        if len(self._links) > MOST_LINKS:
            self._links = {k: v for k, v in self._links.items() if v[0]() is not None}
        self._links[id(tensor)] = (weakref.ref(tensor), at, chain)
        return chain


class _Cycle:
    """What is written to in every turn of a loop, and where a turn begins."""

    def __init__(self) -> None:
        self._counts: dict[Write, int] = {}
        self._held: dict[Write, Any] = {}
        # How often each write had come when the last new one came again.
        self._at_last_new: dict[Write, int] = {}
        self._marker: Write | None = None
        # Writes of the present turn with the operation's number, from the marker on.
        self._turn: list[tuple[Write, int]] = []
        self._boundary: int | None = None
        self._settled = False
        # How often it was found out that the loop is another one.
        self.beginnings = 0

    @property
    def comes_again(self) -> bool:
        """Whether anything was written to more than once."""
        return any(count > 1 for count in self._counts.values())

    def settle(self) -> None:
        """This is the loop: look for no other."""
        self._settled = True
        self._held = {w: s for w, s in self._held.items() if self._counts.get(w, 0) > 1}

    def is_boundary(self, write: Write, tensor: Tensor, operation: int) -> bool:
        """Note a write; whether a turn has ended with it."""
        if self._settled and self._counts.get(write, 0) < 2:
            return False
        self._count(write, tensor)
        if self._marker is None:
            self._choose()
            if self._marker != write:
                return False
        if self._counts[write] < 2:
            return False
        if write == self._marker:
            if self._turn and self._boundary is None:
                self._find_boundary(operation)
            self._turn = []
        self._turn.append((write, operation))
        return self._boundary is not None and len(self._turn) - 1 == self._boundary

    def _count(self, write: Write, tensor: Tensor) -> None:
        count = self._counts[write] = self._counts.get(write, 0) + 1
        if self._settled:
            return
        if count == 1:
            self._held[write] = tensor.untyped_storage()
            self._forget_the_oldest()
        elif count == 2:
            # One more that comes again: the loop is not the one that it seemed to be.
            self._at_last_new = dict(self._counts)
            self._marker, self._turn, self._boundary = None, [], None
            self.beginnings += 1

    def _forget_the_oldest(self) -> None:
        once = [w for w in self._held if self._counts[w] == 1]
        for write in once[: max(0, len(once) - MOST_HELD)]:
            del self._held[write], self._counts[write]

    def _choose(self) -> None:
        """The rarest of all writes that come again, if no new one has come for two turns."""
        again = [w for w, count in self._counts.items() if count >= FEWEST]
        rarest = min(again, key=lambda w: self._counts[w], default=None)
        if rarest is None:
            return
        if self._counts[rarest] - self._at_last_new.get(rarest, 0) >= 2:
            self._marker = rarest

    def _find_boundary(self, operation: int) -> None:
        """A turn ends with the write before the longest stretch without one."""
        at = [number for _, number in self._turn] + [operation]
        gaps = [later - earlier for earlier, later in pairwise(at)]
        self._boundary = gaps.index(max(gaps))
