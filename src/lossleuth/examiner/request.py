"""What the user asked for, and the time budget."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from lossleuth.run_directory import RunDirectory


@dataclass(frozen=True)
class Request:
    """What is examined, for how long, and how much may be tried."""

    # Shown to the user.
    name: str
    out: Path
    # At most; None: to the script's own end, as far as the budget goes.
    steps: int | None = None
    budget: float = 120.0
    seeds: int = 3
    trials: bool = True
    # Whether a run that seems sound is tried with the standing battery; never if some causes alone
    # are asked for.
    challenges: bool = True
    # Whether to say what is proven while the program is still observed.
    early: bool = False
    only: tuple[str, ...] = ()

    @property
    def run(self) -> RunDirectory:
        """Where everything goes."""
        return RunDirectory(self.out)


# Share of the budget that is kept to judge what was seen. Picked by hand: judging a run of 200
# steps and writing its report takes about a second.
JUDGING_SHARE = 0.05


class Budget:
    """Seconds that an examination may take; its clock starts at once."""

    def __init__(self, seconds: float) -> None:
        self.whole = seconds
        self._began = time.monotonic()
        # On the monotonic clock: when everything is over, and when no run of the program goes on.
        self.until = self._began + seconds
        self.runs_until = self.until - JUDGING_SHARE * seconds

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the end; negative when it is over."""
        return self.until - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether no run of the program goes on."""
        return time.monotonic() >= self.runs_until

    def part(self, share: float) -> Budget:
        """A share of what is left; of all that is left, the budget itself."""
        return self if share >= 1 else Budget(max(0.0, self.left) * share)

    def has(self, share: float) -> bool:
        """Whether more than this share of it is left.

        >>> Budget(60.0).has(0.5), Budget(0.0).has(0.5)
        (True, False)
        """
        return self.left > share * self.whole

    def for_observing(self, share: float) -> float:
        """Seconds for one observation: at most this share, and at most half of what is left."""
        return max(5.0, min(share * self.whole, self.left / 2))
