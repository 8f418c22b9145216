"""From a change in a plan to the intervention that makes it: the file of that name."""

from __future__ import annotations

from importlib import import_module

from lossleuth.interventions.intervention import Intervention
from lossleuth.types import Change


def make(change: Change) -> Intervention:
    """The intervention of a change, with its options.

    >>> type(make(Change.of("scale_lr", factor=0.1))).__name__
    'ScaleLr'
    """
    module = import_module(f"lossleuth.interventions.{change.name}")
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Intervention)
        and kind.__module__ == module.__name__
    ]
    return kinds[0](**dict(change.options))
