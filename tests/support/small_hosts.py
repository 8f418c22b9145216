"""What tests of hosts and faults share: hosts small enough to run a few steps in no time."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from lossleuth.labs.lab.cells import HOSTS
from lossleuth.labs.lab.programs.made_up_text import Text
from lossleuth.labs.lab.programs.planting import SGD_RATE, Planted, fault_of, faults, planted
from lossleuth.labs.lab.programs.training_parts import Parts

# As many as the slowest fault needs to show: some do something every tenth step only.
STEPS = 12


def module(host: str) -> ModuleType:
    return import_module(f"lossleuth.labs.lab.programs.{host}")


def small(host: str, rule: str = "adamw", steps: int = STEPS) -> Parts:
    parts: Parts = module(host).healthy()
    settings = replace(
        parts.settings,
        steps=steps,
        rows=4,
        length=12,
        width=16,
        layers=1,
        heads=2,
        rule=rule,
        text=Text(length=2000),
    )
    if rule == "sgd":
        settings = replace(settings, rate=SGD_RATE)
    return replace(parts, settings=settings)


def losses(host: str, *names: str, dose: float | None = None, rule: str = "") -> list[float]:
    """The losses of a few steps with these faults in."""
    rule = rule or (fault_of(names[0]).rule if names else "adamw")
    chosen = [Planted(fault_of(name), dose) for name in names]
    found: list[float] = module(host).train(planted(small(host, rule), chosen))
    return found


def differs(host: str, name: str) -> bool:
    """Whether a fault changes what the host does within a few steps."""
    healthy, faulty = losses(host, rule=fault_of(name).rule), losses(host, name)
    assert len(faulty) >= len(healthy)
    return any(
        a != b and not (math.isnan(a) and math.isnan(b))
        for a, b in zip(healthy, faulty, strict=False)
    )


def planted_in(file: str) -> list[tuple[str, str]]:
    """Every host with every fault of a file that makes sense in it."""
    found = [f for f in faults().values() if f.file.name == file]
    return [(host, f.id) for f in found for host in HOSTS if host not in f.unfit]
