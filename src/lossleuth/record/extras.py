"""Packages that only some exports need."""

from __future__ import annotations

import importlib
from typing import Any

from lossleuth.types.errors import BadInput


def load(module: str, extra: str) -> Any:
    """Import a module of an optional package, or say how to get it.

    >>> try:
    ...     load("no_such_package", "parquet")
    ... except BadInput as refusal:
    ...     print(refusal.found, "-", refusal.remedy)
    it is not installed - pip install 'lossleuth[parquet]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        # One that is there but broken is named as what it is.
        absent = isinstance(error, ModuleNotFoundError) and error.name == package
        found = "it is not installed" if absent else f"it cannot be imported ({error})"
        raise BadInput(
            f"the package {package}", found, f"pip install 'lossleuth[{extra}]'"
        ) from None
