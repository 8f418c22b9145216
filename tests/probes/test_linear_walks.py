"""Work on a recorded step grows as its operations do: lines of ours that run, counted by probe.

Lines, not seconds: the same on every machine, and a walk that goes back to the beginning for each
operation is four times four times as long on a tape of four times the length.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from steps import recorded_step
from torch import Tensor
from torch.nn import functional as F

import lossleuth
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.probe import Probe
from lossleuth.probes.run import probes
from lossleuth.tape.replay.hidden_copies import link_copies
from lossleuth.tape.replay.link_outside import link_outside
from lossleuth.tape.window import Window

OURS = str(Path(lossleuth.__file__).parent)
SHORT, TIMES = 50, 4
# Four times as many, and some: a heap or a sort takes a little more.
MAX_RATIO = 5.0
# Fewer lines than that are no walk over the tape. Picked by hand.
MIN_LINES = 20_000


# Of each probe its lines and where most of them are; and how many operations there are.
Counted = tuple[dict[str, tuple[int, str]], int]


class Counting:
    """How many lines of ours have run in each block."""

    def __init__(self) -> None:
        self.lines = 0
        self.places: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def on(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._count if frame.f_code.co_filename.startswith(OURS) else None

    def _count(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.lines += 1
            self.places[frame.f_code.co_filename.removeprefix(OURS), frame.f_code.co_name] += 1
        return self._count


def recurrence(positions: int) -> Window:
    """A step of a recurrent model, written as a loop over positions."""
    text = torch.randint(0, 23, (2, positions + 1), generator=torch.Generator().manual_seed(1))

    def loss(model: Any, _: Tensor) -> Tensor:
        model.causal, rows = True, []
        h = torch.zeros(2, 16)
        for at in range(positions):
            h = torch.tanh(model.tokens(text[:, at]) + F.linear(h, model.qkv.weight[:16]))
            rows.append(model.head(h))
        logits = torch.stack(rows, 1)
        return F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())

    return recorded_step(loss)


def counted_here(positions: int) -> Counted:
    """What each probe took, and how many operations there are."""
    window, found = recurrence(positions), dict[str, Counting]()

    def counting(name: str, work: Callable[[], object]) -> None:
        found[name] = Counting()
        with found[name].on():
            work()

    with Analysis(window) as analysis:
        counting("outside", lambda: link_outside(window.tape))
        counting("copies", lambda: link_copies(window.tape, []))
        counting("roles", lambda: (analysis.roles, analysis.loss_roles))
        for probe in tape_probes():
            counting(probe.id, lambda probe=probe: _drained(probe.run(analysis)))
    told = {name: (one.lines, str(one.places.most_common(3))) for name, one in found.items()}
    return told, len(window.tape.operations)


@cache
def counted(positions: int) -> Counted:
    """The same in a process of its own: what other tests have left makes counting slow."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "support")}
    done = subprocess.run(
        [sys.executable, __file__, str(positions)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines, operations = json.loads(done.stdout)
    return lines, operations


def tape_probes() -> list[Probe]:
    return [probe for probe in probes() if not probe.without_autograd]


def _drained(found: Any) -> object:
    return found if found is None or not hasattr(found, "__iter__") else list(found)


WORK = ["outside", "copies", "roles", *(probe.id for probe in tape_probes())]


@pytest.mark.parametrize("name", WORK)
def test_work_grows_as_the_tape_does(name: str) -> None:
    (short, few), (long, many) = counted(SHORT), counted(TIMES * SHORT)
    assert few > 5 * SHORT and many / few < TIMES
    most = max(MIN_LINES, MAX_RATIO * short[name][0])
    assert long[name][0] <= most, (short[name], long[name])


if __name__ == "__main__":
    print(json.dumps(counted_here(int(sys.argv[1]))))
