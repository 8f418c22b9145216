"""Your loss won't go down. lossleuth finds out why, and proves it.

The names below are imported when they are first used, so that `import lossleuth` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossleuth.examiner.verdict import Verdict as Verdict
    from lossleuth.examining import assert_healthy as assert_healthy
    from lossleuth.examining import examine as examine
    from lossleuth.examining import run as run
    from lossleuth.observe.inside import watch as watch
    from lossleuth.record.read import Record as Record
    from lossleuth.tape.check import check_gradient as check_gradient
    from lossleuth.tape.loss_check import check_loss as check_loss
    from lossleuth.types import BadInput as BadInput
    from lossleuth.types import Status as Status

__version__ = "0.1.0.dev0"
__all__ = [
    "BadInput",
    "Record",
    "Status",
    "Verdict",
    "assert_healthy",
    "check_gradient",
    "check_loss",
    "examine",
    "run",
    "watch",
]

_HOMES = {
    "BadInput": "lossleuth.types",
    "Record": "lossleuth.record.read",
    "Status": "lossleuth.types",
    "Verdict": "lossleuth.examiner.verdict",
    "assert_healthy": "lossleuth.examining",
    "check_gradient": "lossleuth.tape.check",
    "check_loss": "lossleuth.tape.loss_check",
    "examine": "lossleuth.examining",
    "run": "lossleuth.examining",
    "watch": "lossleuth.observe.inside",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'lossleuth' has no attribute {name!r}")
