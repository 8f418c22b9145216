"""The names of everything in a run directory, and where a new one goes.

A watched run lies in its directory itself. An examined one has a folder for each look and each
trial, and the verdict beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lossleuth.files import make_directory
from lossleuth.types.errors import BadInput

# Of one recorded run: its steps, what it printed, how its process ended, what it imported, and the
# runs of processes that it started.
RECORD = "record.log"
OUTPUT = "output.txt"
ENDING = "ending.json"
IMPORTS = "imports.json"
PROCESSES = "processes"
# What each step of it trained on, while it is examined.
BATCHES = "batches.bin"
# Of an examination: what was gathered, and what was said of it.
EXAMINATION = "examination.json"
VERDICT = "verdict.json"
REPORT = "report"

_OBSERVED, _OBSERVED_BY_HAND = "observed", "observed-by-hand"
_CURED, _TRIALS, _OVERFIT, _CHALLENGES = "cured", "trials", "overfit", "challenges"
# Looks that were taken again, to record the first bad step or an evaluation.
_BAD, _EVALUATED = "-bad", "-evaluated"


@dataclass(frozen=True)
class RunDirectory:
    """The paths of one run.

    >>> RunDirectory(Path("runs/a")).cured(1).as_posix()
    'runs/a/cured1'
    """

    path: Path

    @property
    def look(self) -> Path:
        """Where the record is that the verdict rests on: of a watched run, the directory itself."""
        looks = (self.observed_by_hand, self.observed)
        return next((look for look in looks if look.is_dir()), self.path)

    @property
    def observed(self) -> Path:
        """The first look."""
        return self.path / _OBSERVED

    @property
    def observed_by_hand(self) -> Path:
        """The first look at a program that trains without autograd."""
        return self.path / _OBSERVED_BY_HAND

    @property
    def batches(self) -> Path:
        """What the steps of the first look trained on."""
        return self.observed / BATCHES

    def cured(self, number: int) -> Path:
        """The look of that number, from 1, with cures in."""
        return self.path / f"{_CURED}{number}"

    def cured_looks(self) -> list[Path]:
        """Those that have a record, in the order in which they were taken."""
        found = [log.parent for log in self.path.glob(f"{_CURED}*/{RECORD}")]
        return sorted(found, key=lambda look: (len(look.name), look.name))

    def trials(self, round_number: int) -> Path:
        """The trials on top of one look; the first look has the number 0."""
        return self.path / _TRIALS / str(round_number)

    def challenges(self, phase: int) -> Path:
        """The trials of the standing battery in one phase."""
        return self.path / _TRIALS / f"{_CHALLENGES}{phase}"

    @property
    def overfit(self) -> Path:
        """The trial that overfits one batch."""
        return self.path / _TRIALS / _OVERFIT

    def trial_records(self) -> list[Path]:
        """The records of all trials."""
        return sorted((self.path / _TRIALS).glob(f"*/*/{RECORD}"))

    @property
    def examination(self) -> Path:
        """What was gathered, with what a judge has to know of it."""
        return self.path / EXAMINATION

    @property
    def verdict(self) -> Path:
        """The verdict."""
        return self.path / VERDICT

    def report(self, form: str) -> Path:
        """The report in one of its forms: html, md, json, csv."""
        return self.path / f"{REPORT}.{form}"

    def process_records(self) -> list[Path]:
        """The records of processes that a watched run started."""
        return sorted((self.path / PROCESSES).glob(f"*/{RECORD}"))


def of_bad_step(look: Path) -> Path:
    """Where a look's first bad step is recorded."""
    return look.with_name(f"{look.name}{_BAD}")


def of_evaluations(look: Path) -> Path:
    """Where evaluations are recorded that a look had missed."""
    return look.with_name(f"{look.name}{_EVALUATED}")


def dated_directory() -> Path:
    """The directory of a run without --out."""
    return Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")


def has_record(directory: Path) -> bool:
    """Whether a record would be overwritten here."""
    return (directory / RECORD).exists()


def has_anything(directory: Path) -> bool:
    """Whether there is anything in a directory."""
    return directory.exists() and any(directory.iterdir())


def free_directory(wanted: Path, in_use: Callable[[Path], bool] = has_anything) -> Path:
    """The requested directory or, if that is in use, the next free name."""
    directory, number = wanted, 1
    while True:
        if directory.exists() and not directory.is_dir():
            raise BadInput(
                "a directory for the run", f"a file at {directory}", "give another --out"
            )
        if not in_use(directory):
            make_directory(directory)
            return directory
        number += 1
        directory = wanted.with_name(f"{wanted.name}-{number}")
