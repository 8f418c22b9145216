"""Imports a user's file, checks the gradient it defines and prints the result as JSON.

python -m lossleuth.agents.gradient_child FILE LOSS GRADIENT PARAMETERS
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from lossleuth.gradcheck.check import Along, GradientCheck, check_gradient
from lossleuth.record import strict_json
from lossleuth.types.errors import BadInput


def main(arguments: list[str]) -> int:
    """Print the result; if the check is impossible, one sentence on stderr and exit code 2."""
    # Keep the answer apart from whatever the file prints.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        sys.stdout.flush()
        os.dup2(2, 1)
        return _answered(arguments, answer)


def _answered(arguments: list[str], answer: TextIO) -> int:
    file, *names = arguments
    try:
        found = checked(Path(file), *names)
    except BadInput as refusal:
        sys.stdout.flush()
        print(f"\nlossleuth: {refusal}", file=sys.stderr, flush=True)
        return 2
    answer.write(strict_json.dumps(as_json(found)))
    return 0


def checked(file: Path, loss: str, gradient: str, parameters: str) -> GradientCheck:
    """Check `gradient` against `loss` at `parameters`, each given by its name in the file."""
    known = _loaded(file)
    missing = [name for name in (loss, gradient, parameters) if name not in known]
    if missing:
        there = ", ".join(name for name in known if not name.startswith("_")) or "nothing"
        raise BadInput(
            f"{missing[0]} in {file.name}", f"{there[:300]}", "give a name that the file defines"
        )
    if not callable(known[loss]):
        found = type(known[loss]).__name__
        raise BadInput(f"a function {loss}", f"a {found}", "give a function of the parameters")
    try:
        values = known[parameters]
        values = values() if callable(values) else values
        if not isinstance(values, Mapping | list | tuple):
            found = type(values).__name__
            raise BadInput(
                f"a list of tensors or arrays in {parameters}", f"a {found}", "wrap it in a list"
            )
        return check_gradient(loss=known[loss], gradient=known[gradient], parameters=values)
    except BadInput:
        raise
    except Exception as error:
        raise _failure(file, error, "a loss and a gradient that run without error") from None


def as_json(found: GradientCheck) -> dict[str, Any]:
    """The result as plain values."""
    return {
        "outcome": found.outcome.value,
        "wrong": list(found.wrong),
        "whole": _along(found.whole),
        "parts": [_along(part) for part in found.parts],
    }


def _along(along: Along) -> dict[str, Any]:
    return {
        "name": along.name,
        "outcome": along.outcome.value,
        "claimed": along.claimed,
        "true": along.true,
        "bound": along.bound,
        "error": along.error,
        "how": along.how,
    }


def _loaded(file: Path) -> dict[str, Any]:
    """Import a file, not as the main program; the names it defines."""
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location("lossleuth_checked_file", file)
    if spec is None or spec.loader is None:
        raise BadInput("a Python file", f"{file.name}", "give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _failure(file, error, "a file that imports without error") from None
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


def _failure(file: Path, error: BaseException, expected: str) -> BadInput:
    """What the user's code raised, and at which line of the file."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
    at = f" at line {frames[-1].lineno}" if frames else ""
    words = " ".join(str(error).split())[:500]
    return BadInput(expected, f"{type(error).__name__}{at}: {words}", f"fix {file.name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
