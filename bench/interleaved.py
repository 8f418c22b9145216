"""Measure rivals against each other on a noisy machine.

Each rival lives in a process of its own, so that allocator state and peak memory are its own,
and only one computes at a time. Rounds of a few steps go round-robin, so that a slow minute of
the machine falls on all; a speed is the median over rounds of a ratio within the round. Rounds
in which other processes took processor time are left out where enough others remain.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEWEST_ROUNDS = 10
RESAMPLES = 4000
# Threads of the rival before wait for more work by spinning for a while: let them fall asleep.
PAUSE = 0.02
# Share of the processors that others may take in a round that still counts as quiet.
QUIET = 0.05


@dataclass(frozen=True)
class Side:
    """A rival: `build(*arguments)` runs in its process and makes one step per `next`."""

    name: str
    build: Callable[..., Iterator[float]]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Lap:
    """A few steps: the value of each, how long they took, and in how much processor time."""

    values: list[float]
    seconds: float
    processor_seconds: float


@dataclass(frozen=True)
class Memory:
    """Resident memory of a process in MB: before its first step, and at its peak."""

    before: float
    peak: float


@dataclass(frozen=True)
class Profile:
    """Seconds of a few profiled steps, and those in each operator itself."""

    seconds: float
    operators: dict[str, float]

    def share(self, *names: str) -> float:
        """Share of the time spent in these operators."""
        return sum(self.operators.get(name, 0.0) for name in names) / self.seconds


@dataclass(frozen=True)
class Rounds:
    """Seconds of each rival (row) in each round, and the share of processors others took."""

    seconds: NDArray[np.float64]
    foreign: NDArray[np.float64]

    def quiet(self) -> Rounds:
        """The undisturbed rounds; where they are too few, the least disturbed quarter."""
        limit = max(QUIET, np.quantile(self.foreign, 0.25))
        kept = self.foreign <= limit
        return Rounds(self.seconds[:, kept], self.foreign[kept])


@dataclass(frozen=True)
class Ratio:
    """Median over rounds, with the 95 % interval of that median by bootstrap."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


class Rival:
    """The parent's end of a side's process."""

    def __init__(self, side: Side) -> None:
        self.name = side.name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, side), daemon=True)
        self._process.start()
        theirs.close()
        self._answer()

    def __enter__(self) -> Rival:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join()

    def steps(self, count: int) -> Lap:
        """Make steps."""
        return self._ask("steps", count)

    def memory(self) -> Memory:
        """Resident memory so far."""
        return self._ask("memory", 0)

    def profile(self, count: int) -> Profile:
        """Make steps under torch.profiler, which takes memory and time of its own."""
        return self._ask("profile", count)

    def _ask(self, what: str, count: int) -> Any:
        self._pipe.send((what, count))
        return self._answer()

    def _answer(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(
                f"expected {self.name} to answer, found its process ended with exit code "
                f"{self._process.exitcode}: look above for its own words"
            ) from None


def start(sides: Sequence[Side], stack: ExitStack) -> list[Rival]:
    """One process per side, each built before the next one starts."""
    return [stack.enter_context(Rival(side)) for side in sides]


def race(rivals: Sequence[Rival], steps: int, budget: float) -> Rounds:
    """Rounds of `steps` steps of each rival, for `budget` seconds.

    Each round has an order of its own, so that nobody always runs after the same rival.
    """
    seconds: list[list[float]] = []
    foreign: list[float] = []
    orders = np.random.default_rng(0)
    began = time.perf_counter()
    while len(seconds) < FEWEST_ROUNDS or time.perf_counter() - began < budget:
        laps = {which: _rested(rivals[which], steps) for which in orders.permutation(len(rivals))}
        wall = sum(lap.seconds for lap, _ in laps.values())
        others = sum(busy - lap.processor_seconds for lap, busy in laps.values())
        foreign.append(others / (wall * (os.cpu_count() or 1)))
        seconds.append([laps[which][0].seconds for which in range(len(rivals))])
    return Rounds(np.array(seconds).T, np.array(foreign))


def _rested(rival: Rival, steps: int) -> tuple[Lap, float]:
    """A lap, and the processor time that the whole machine has spent in it."""
    time.sleep(PAUSE)
    busy = _busy_seconds()
    return rival.steps(steps), _busy_seconds() - busy


def speed_ratio(seconds: NDArray[np.float64], reference: NDArray[np.float64]) -> Ratio:
    """How many times as fast as the reference, from the seconds of each round."""
    ratios = reference / seconds
    picks = np.random.default_rng(0).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[picks], axis=1), (0.025, 0.975))
    return Ratio(float(np.median(ratios)), float(low), float(high))


def _serve(pipe: Connection, side: Side) -> None:
    """A side's process: do what the parent asks until it hangs up."""
    stepper = side.build(*side.arguments)
    before = _resident("VmRSS")
    pipe.send("ready")
    while True:
        try:
            what, count = pipe.recv()
        except EOFError:
            return
        if what == "steps":
            pipe.send(_lap(stepper, count))
        elif what == "memory":
            pipe.send(Memory(before, _resident("VmHWM")))
        else:
            pipe.send(_profile(stepper, count))


def _lap(stepper: Iterator[float], count: int) -> Lap:
    began, used = time.perf_counter(), time.process_time()
    values = [next(stepper) for _ in range(count)]
    return Lap(values, time.perf_counter() - began, time.process_time() - used)


def _profile(stepper: Iterator[float], count: int) -> Profile:
    # Read when the profiler starts: without it, it announces itself on stderr.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        lap = _lap(stepper, count)
    events = profiler.key_averages()
    return Profile(lap.seconds, {e.key: e.self_cpu_time_total / 1e6 for e in events})


def _resident(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"expected {field} in /proc/self/status, found none: run on Linux")


def _busy_seconds() -> float:
    """Processor time that the machine has spent on anything, or lost to its host."""
    user, nice, system, _idle, _wait, *rest = _processor_ticks()
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


def _processor_ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
