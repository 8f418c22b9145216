"""From a change in a plan to the intervention that makes it: the file of that name."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import lossleuth.interventions
from lossleuth.interventions.intervention import Intervention
from lossleuth.types.change import Change


@cache
def modules() -> dict[str, str]:
    """Where each intervention is, by its name: every file in a folder of this package."""
    found = pkgutil.walk_packages(lossleuth.interventions.__path__, "lossleuth.interventions.")
    paths = [module.name for module in found if module.name.count(".") == 3]
    return {path.rpartition(".")[2]: path for path in paths}


def kind_of(name: str) -> type[Intervention]:
    """The class of an intervention; KeyError where there is none of that name."""
    module = import_module(modules()[name])
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Intervention)
        and kind.__module__ == module.__name__
    ]
    return kinds[0]


def make(change: Change) -> Intervention:
    """The intervention of a change, with its options.

    >>> type(make(Change.of("scale_lr", factor=0.1))).__name__
    'ScaleLr'
    """
    return kind_of(change.name)(**dict(change.options))
