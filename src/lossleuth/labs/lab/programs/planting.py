"""Faults by name: which cause each is, what it does to the parts of a script, and where."""

from __future__ import annotations

import argparse
import ast
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from lossleuth.labs.lab.programs.training_parts import Parts
from lossleuth.types.errors import BadInput

FOLDER = Path(__file__).parent
Plant = Callable[[Parts, float], Parts]


@dataclass(frozen=True)
class Fault:
    """One bug, as somebody might have written it."""

    id: str
    plant: Plant
    # How much of it, where there is a more and a less, and a ladder from plain to hardly there.
    dose: float | None = None
    ladder: tuple[float, ...] = ()
    # The rule of the update under which it does what it does.
    rule: str = "adamw"
    # Hosts in which it makes no sense, and why.
    unfit: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The file in which it is written."""
        return Path(inspect.getsourcefile(self.plant) or "")

    @property
    def source(self) -> str:
        """The function that is the fault."""
        text = self.file.read_text(encoding="utf-8")
        (found,) = (
            node
            for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef) and node.name == self.plant.__name__
        )
        first = found.decorator_list[0].lineno - 1
        return "".join(text.splitlines(keepends=True)[first : found.end_lineno])

    def lines(self, host: str) -> list[int]:
        """The lines of its file that are wrong, in that host: those marked `planted: ID`."""
        marked = re.compile(rf"# planted: {self.id}(?: (\w+))?$")
        found = []
        for number, line in enumerate(self.file.read_text(encoding="utf-8").splitlines(), 1):
            match = marked.search(line)
            if match and match[1] in (None, host):
                found.append(number)
        return found


class Planted(NamedTuple):
    """A fault and how much of it."""

    fault: Fault
    dose: float | None


_known: dict[str, Fault] = {}


def fault(
    dose: float | None = None,
    ladder: tuple[float, ...] = (),
    rule: str = "adamw",
    unfit: Mapping[str, str] | None = None,
) -> Callable[[Plant], Plant]:
    """Make a function a fault; its name is that of the cause."""

    def keep(plant: Plant) -> Plant:
        name = plant.__name__
        _known[name] = Fault(name, plant, dose, ladder, rule, unfit or {})
        return plant

    return keep


def oddities() -> list[Fault]:
    """What looks like a fault and is none.

    >>> "dropout" in [odd.id for odd in oddities()]
    True
    """
    return [f for f in faults().values() if f.file.name == "healthy_oddities.py"]


@cache
def faults() -> dict[str, Fault]:
    """All faults, found by walking the folder.

    >>> "label_offset" in faults()
    True
    """
    for module in pkgutil.iter_modules([str(FOLDER)]):
        if module.name.endswith(("_faults", "_oddities")):
            import_module(f"lossleuth.labs.lab.programs.{module.name}")
    return dict(sorted(_known.items()))


def fault_of(identifier: str) -> Fault:
    """The fault of that name; BadInput if there is none."""
    if identifier not in faults():
        raise BadInput("the id of a fault", repr(identifier), f"give one of {', '.join(faults())}")
    return faults()[identifier]


def planted(parts: Parts, chosen: Sequence[Planted]) -> Parts:
    """The parts with these faults in, one after the other."""
    for fault, dose in chosen:
        given = fault.dose if dose is None else dose
        parts = fault.plant(parts, 0.0 if given is None else given)
    return parts


def asked(parts: Parts, program: str, words: Sequence[str] | None = None) -> Parts:
    """The parts as the command line wants them: settings, and faults with their doses."""
    parser = argparse.ArgumentParser(description=program.split("\n")[0])
    parser.add_argument("--steps", type=int, default=parts.settings.steps)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rule", choices=("adamw", "sgd"), default="adamw")
    parser.add_argument("--fault", action="append", default=[], help="may be repeated")
    parser.add_argument("--dose", action="append", type=float, default=[], help="one per fault")
    given = parser.parse_args(words)
    settings = replace(parts.settings, steps=given.steps, seed=given.seed, rule=given.rule)
    if given.rule == "sgd":
        settings = replace(settings, rate=SGD_RATE)
    doses = [*given.dose, *[None] * (len(given.fault) - len(given.dose))]
    chosen = [Planted(fault_of(f), d) for f, d in zip(given.fault, doses, strict=False)]
    return planted(replace(parts, settings=settings), chosen)


# What stochastic gradient descent needs where Adam takes the settings' rate.
SGD_RATE = 0.3
