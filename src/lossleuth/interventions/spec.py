"""What is known of an intervention without importing it, and torch with it.

An intervention says these things as plain attributes of its class; they are read from its source.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class InterventionSpec:
    """What whoever plans and judges trials has to know; see `Intervention` for the meaning."""

    wants_tape: bool = False
    only_scales_gradients: bool = False


@cache
def spec_of(name: str) -> InterventionSpec:
    """The spec of an intervention; of a name that is unknown, that of one like any other.

    >>> spec_of("clip_gradients")
    InterventionSpec(wants_tape=False, only_scales_gradients=True)
    """
    paths = list(FOLDER.glob(f"*/{name}.py")) if name.isidentifier() else []
    return read_spec(paths[0].read_text(encoding="utf-8")) if paths else InterventionSpec()


def read_spec(source: str) -> InterventionSpec:
    """The spec that the classes of a file give.

    >>> read_spec("class Other(Intervention):\\n    wants_tape = True").wants_tape
    True
    """
    known = {field.name for field in fields(InterventionSpec)}
    found: dict[str, bool] = {}
    for node in ast.parse(source).body:
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant):
                names = {target.id for target in part.targets if isinstance(target, ast.Name)}
                found |= dict.fromkeys(names & known, bool(part.value.value))
    return InterventionSpec(**found)
