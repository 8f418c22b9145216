"""Finds causes and challenges by walking their folders: adding one is adding a file."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import lossleuth.causes
import lossleuth.challenges
from lossleuth.types.cause import Cause
from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Stage

# Measured by the lab, and never typed.
DOSES = Path(lossleuth.causes.__file__).parent / "doses.json"
HEADINGS = (
    "What it means",
    "Why training fails",
    "How it is judged",
    "How to fix",
    "When this verdict is wrong",
)


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, earlier stages first.

    >>> "label_offset" in [cause.id for cause in causes()]
    True
    """
    found = []
    for module in pkgutil.walk_packages(lossleuth.causes.__path__, "lossleuth.causes."):
        cause = getattr(import_module(module.name), "CAUSE", None)
        if isinstance(cause, Cause):
            found.append(cause)
    order = list(Stage)
    return tuple(sorted(found, key=lambda c: (order.index(c.stage), c.id)))


@cache
def challenges() -> tuple[Challenge, ...]:
    """The standing battery, in the order in which it is tried: what is only told comes last.

    >>> "at a tenth of the learning rate" in [challenge.words for challenge in challenges()]
    True
    """
    found: list[Challenge] = []
    for module in pkgutil.iter_modules(lossleuth.challenges.__path__, "lossleuth.challenges."):
        found += import_module(module.name).CHALLENGES
    order = list(Bias)
    return tuple(sorted(found, key=lambda c: (order.index(c.bias), c.over_whole_run)))


def battery_for(only: Sequence[str]) -> tuple[Challenge, ...]:
    """What a healthy run has to stand; nothing where some causes alone are asked for."""
    return () if only else challenges()


def cause(identifier: str) -> Cause:
    """The cause of that name; BadInput if there is none."""
    known = {c.id: c for c in causes()}
    if identifier not in known:
        found = f"{identifier!r}"
        raise BadInput("the id of a cause", found, "see `lossleuth causes` for all of them")
    return known[identifier]


def chosen_causes(only: Sequence[str]) -> list[Cause]:
    """The causes asked for, or all; BadInput if there is no such cause."""
    known = {c.id for c in causes()}
    for identifier in only:
        if identifier not in known:
            raise BadInput(
                "ids of causes", repr(identifier), "see `lossleuth causes` for all of them"
            )
    return [c for c in causes() if not only or c.id in only]


def page(cause: Cause) -> str:
    """The page of a cause: the docstring of its file, and how small a dose of it was proven."""
    name = f"lossleuth.causes.{cause.stage.value}.{cause.id}"
    text = (import_module(name).__doc__ or "").strip()
    dose = smallest_dose(cause.id)
    return text if dose is None else f"{text}\n\nSensitivity\n    {dose}"


def smallest_dose(identifier: str) -> str | None:
    """What `lossleuth lab --doses` has measured of a cause, in a sentence; None if nothing."""
    try:
        known = json.loads(DOSES.read_text(encoding="utf-8"))[identifier]
    except (OSError, KeyError):
        return None
    ladder = ", ".join(f"{dose:g}" for dose in known["ladder"])
    smallest = known["smallest_proven"]
    found = "none was proven" if smallest is None else f"{smallest:g} is the smallest dose proven"
    return f"Tested in the lab at doses {ladder}: {found}."
