"""Finds the causes by walking their folder: adding one is adding a file."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import lossleuth.causes
from lossleuth.types import BadInput, Cause, Stage

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


def cause(identifier: str) -> Cause:
    """The cause of that name; BadInput if there is none."""
    known = {c.id: c for c in causes()}
    if identifier not in known:
        found = f"{identifier!r}"
        raise BadInput("the id of a cause", found, "see `lossleuth causes` for all of them")
    return known[identifier]


def page(cause: Cause) -> str:
    """The page of a cause: the docstring of its file."""
    name = f"lossleuth.causes.{cause.stage.value}.{cause.id}"
    return (import_module(name).__doc__ or "").strip()
