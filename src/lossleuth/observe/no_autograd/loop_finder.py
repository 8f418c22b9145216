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

from lossleuth.findings.no_autograd import HandStep
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.observe.session import Session
from lossleuth.observe.stop import Limit, StopRun
from lossleuth.tape.capture.compiler_marks import never_compile
from lossleuth.tape.capture.memory import memory_of, written_tensors
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.capture.source_frames import place_of
from lossleuth.tape.op_schemas import short_name
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.window import Window
from lossleuth.torch_internals import OpOverload, TorchDispatchMode, leave_mode, without_modes

# A write that was made so often is one of the loop's.
FEWEST = 3
# Memory that is kept, so that its address is not used again while the loop is not yet known.
MOST_HELD = 4096
MOST_LINKS = 20_000
# The operation after which a loop is looked for first; then after twice as many, and so on.
FIRST_CHOICE = 256
# Operations without a loop of writes, after which tensors in each other's place are followed.
PATIENCE = 2000


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
        look: Callable[[Window], RecordedStep],
        write: Callable[[str, dict[str, Any]], None],
        session: Session,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped base
        self.steps = 0
        self._asked = frozenset(steps)
        self._wanted = set(steps)
        # Steps that are not sure yet.
        self._rows: list[dict[str, Any]] = []
        self._limit = limit
        self._look = look
        self._write = write
        self._session = session
        self._operations = 0
        self._cycle = _Cycle()
        self._chains = _Chains()
        # Whether tensors are followed that take each other's place.
        self._follows = False
        self._recorder: Recorder | None = None
        self._loss_key: tuple[str | None, str] | None = None
        self._loss: float | None = None
        self._began = time.monotonic()

    @never_compile
    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Carry out an operation, and see what it means for the loop."""
        out = func(*args, **(kwargs or {}))
        own = self._session.own
        if not own.depth:
            own.depth += 1
            try:
                self._saw(func, args, kwargs or {}, out)
            except StopRun:
                raise
            except Exception as error:
                self._session.failures.note("hand_loop", error)
            finally:
                own.depth -= 1
        return out

    def leave(self) -> None:
        """See no more operations, whatever else is at work by now."""
        if self._recorder is not None:
            self._recorder.stop()
            self._recorder = None
        leave_mode(self)

    def _saw(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        self._operations += 1
        if self._operations % 512 == 0:
            self._stop_in_time()
        if self._loss_key is not None and isinstance(out, Tensor) and out.numel() == 1:
            place, _ = place_of()
            if (None if place is None else str(place), short_name(func)) == self._loss_key:
                with without_modes():
                    self._loss = float(out)
        for tensor in written_tensors(func, args, kwargs):
            if tensor.is_floating_point() and tensor.dim():
                self._wrote(tensor, short_name(func))
        if self._operations == PATIENCE:
            self._follows = not self._cycle.is_settled
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
        choices = self._cycle.choices
        ended = self._cycle.is_boundary(write, tensor, self._operations)
        if self._cycle.choices != choices:
            self._begin_again()
        elif ended:
            self._step_ends()

    def _begin_again(self) -> None:
        """What seemed to be the loop is none: nothing was a step so far."""
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
        self._write_rows()
        self.steps += 1
        self._stop_in_time()
        if self.steps in self._wanted:
            self._wanted.discard(self.steps)
            self._recorder = Recorder(self.steps, self._session.own)
            self._recorder.start()

    def _write_rows(self) -> None:
        """Write steps once it is sure that they are: a loss was found in one."""
        if self._loss_key is not None:
            for row in self._rows:
                self._write("step", row)
            self._rows = []

    def _end_window(self, recorder: Recorder) -> None:
        self._recorder = None
        recorder.stop()
        # Whoever looks computes as well, and no loop is to be found in that.
        with without_modes(), neutral(float64=False, gradients=True):
            found = self._look(recorder.window)
        step = found.first(HandStep)
        if step is None:
            if not self._cycle.is_settled:
                self._cycle.give_up()
                self._begin_again()
            return
        self._loss_key = (step.loss_place, step.loss_operation)
        self._loss = step.loss
        self._cycle.settle()
        self._write_rows()
        self._write("tape", found.plain())

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
    """What is written to in every turn of a loop, and where a turn begins.

    Sums that are made anew in every turn are written to as well, many times, and then no more. What
    was written to first long ago, and still is, is the loop's; the rarest of that marks a turn.
    """

    def __init__(self) -> None:
        self._counts: dict[Write, int] = {}
        self._first: dict[Write, int] = {}
        self._last: dict[Write, int] = {}
        self._held: dict[Write, Any] = {}
        self._next_choice = FIRST_CHOICE
        self._marker: Write | None = None
        # Writes of the present turn with the operation's number, from the marker on.
        self._turn: list[tuple[Write, int]] = []
        self._boundary: int | None = None
        self._loop: set[Write] = set()
        self._settled = False
        # How often another loop was chosen.
        self.choices = 0

    @property
    def is_settled(self) -> bool:
        """Whether no other loop is looked for."""
        return self._settled

    def settle(self) -> None:
        """This is the loop: look for no other."""
        self._settled = True

    def give_up(self) -> None:
        """This is not the loop: choose another the next time."""
        self._marker, self._turn, self._boundary = None, [], None

    def is_boundary(self, write: Write, tensor: Tensor, operation: int) -> bool:
        """Note a write; whether a turn has ended with it."""
        if not self._settled:
            self._count(write, tensor, operation)
            if operation >= self._next_choice:
                self._next_choice *= 2
                lost = self._marker is None or self._last[self._marker] < operation * 3 / 4
                if lost or self._boundary is None:
                    self._choose(operation)
        if self._marker is None or write not in self._loop:
            return False
        if write == self._marker:
            if self._turn and self._boundary is None:
                self._find_boundary(operation)
            self._turn = []
        elif not self._turn:
            return False
        self._turn.append((write, operation))
        return self._boundary is not None and len(self._turn) - 1 == self._boundary

    def _count(self, write: Write, tensor: Tensor, operation: int) -> None:
        count = self._counts[write] = self._counts.get(write, 0) + 1
        self._last[write] = operation
        if count == 1:
            self._first[write] = operation
            self._held[write] = tensor.untyped_storage()
            if len(self._held) > MOST_HELD:
                self._forget(operation)

    def _forget(self, operation: int) -> None:
        """Let go of what has not been written to for long."""
        old = [w for w in self._held if self._last[w] < operation / 2 or self._counts[w] == 1]
        for write in old[: MOST_HELD // 2]:
            for known in (self._counts, self._first, self._last, self._held):
                known.pop(write)

    def _choose(self, operation: int) -> None:
        self._loop = {
            write
            for write, count in self._counts.items()
            if count >= FEWEST
            and self._first[write] < operation / 2
            and self._last[write] > operation * 3 / 4
        }
        self._marker = min(self._loop, key=lambda w: self._counts[w], default=None)
        self._turn, self._boundary = [], None
        self.choices += 1

    def _find_boundary(self, operation: int) -> None:
        """A turn ends with the write before the longest stretch without one."""
        at = [number for _, number in self._turn] + [operation]
        gaps = [later - earlier for earlier, later in pairwise(at)]
        self._boundary = gaps.index(max(gaps))
