"""What the parent process asks its child to record: built by the parent, read by the child.

It travels in the environment, so that children started by `spawn`, torchrun or a launcher are
watched like their parent.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "LOSSLEUTH_WATCH"
# The exit code of a forked run that could not go on as a run by itself would.
CANNOT_GO_ON = 79
STARTUP_FOLDER = str(Path(__file__).parent / "child" / "startup")


@dataclass(frozen=True)
class WatchRequest:
    """What to record, and where."""

    directory: str
    header: dict[str, Any]
    process: int
    activations: bool = False
    tape: tuple[int, ...] = ()
    # Whether to choose further steps for a tape as the run unfolds.
    paced: bool = False
    # Whether to keep what each step trains on, in a file of its own.
    keeps_batches: bool = False
    # Steps for which only the true loss is measured.
    loss_steps: tuple[int, ...] = ()
    # Stop after this many steps or seconds of training.
    stop_steps: int | None = None
    stop_seconds: float | None = None
    # Be over at this time, in seconds since the epoch, start-up and our own work included.
    until: float | None = None
    # Added to the script's seeds; None leaves everything to the script.
    seed_shift: int | None = None
    # Whether to look for training steps without autograd.
    by_hand: bool = False
    # A scratch folder, for runs that must not write to the user's files.
    scratch: str | None = None
    # Interventions by name with their options.
    changes: tuple[tuple[str, dict[str, Any]], ...] = ()
    # The step from which on they act.
    from_step: int = 0
    # Stand still after the script has made so many optimizers and schedules, and be forked there
    # for every run that is asked for at the socket `channel`.
    forked_after: int | None = None
    channel: str | None = None

    @classmethod
    def read(cls, text: str) -> WatchRequest:
        """What `environment` wrote."""
        return cls(**json.loads(text))

    def __post_init__(self) -> None:
        # JSON has no tuples.
        for name in ("tape", "loss_steps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        changes = tuple((name, dict(options)) for name, options in self.changes)
        object.__setattr__(self, "changes", changes)

    @property
    def ends_at(self) -> float:
        """When the run has to be over; infinity if nobody minds."""
        return math.inf if self.until is None else self.until

    @property
    def is_trial(self) -> bool:
        """Whether only losses are wanted; origins are known from an earlier run."""
        return bool(self.loss_steps) and not self.tape and not self.paced

    def environment(self) -> dict[str, str]:
        """Environment variables that pass this request to every process the script starts."""
        paths = [STARTUP_FOLDER, os.environ.get("PYTHONPATH", "")]
        return {
            VARIABLE: json.dumps(asdict(self)),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
