"""What every finding has, and how findings are known by name."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import lossleuth.findings
from lossleuth.types.plain import from_plain, to_plain


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a probe measured on a recorded step. Its file is its subject, its class its name."""

    # Why nothing could be measured; then the numbers mean nothing.
    untested: str | None = None


def name_of(kind: type[Finding]) -> str:
    """What a kind of finding is called in records and on pages.

    >>> from lossleuth.findings.gradient import GradientTruth
    >>> name_of(GradientTruth)
    'gradient_truth'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


@cache
def kinds() -> Mapping[str, type[Finding]]:
    """Every kind of finding by its name, from the files of this folder."""
    for module in pkgutil.iter_modules(lossleuth.findings.__path__, "lossleuth.findings."):
        import_module(module.name)
    return {name_of(kind): kind for kind in Finding.__subclasses__()}


def stored(finding: Finding) -> dict[str, Any]:
    """A finding as plain values, with its kind."""
    return {"kind": name_of(type(finding)), **to_plain(finding)}


def restored(plain: Mapping[str, Any]) -> Finding | None:
    """A finding from its plain values; None if it is of a kind that is not known here."""
    kind = kinds().get(str(plain.get("kind")))
    return None if kind is None else from_plain(kind, plain)
