"""Your loss won't go down. lossleuth finds out why, and proves it.

The names below are imported when they are first used, so that `import lossleuth` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossleuth.api import assert_healthy as assert_healthy
    from lossleuth.api import examine as examine
    from lossleuth.api import run as run
    from lossleuth.gradcheck.check import check_gradient as check_gradient
    from lossleuth.gradcheck.loss_check import check_loss as check_loss
    from lossleuth.judge.verdict import Verdict as Verdict
    from lossleuth.record.read import Record as Record
    from lossleuth.types.errors import BadInput as BadInput
    from lossleuth.types.judgement import Status as Status
    from lossleuth.watching.context import watch as watch

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
    "BadInput": "lossleuth.types.errors",
    "Record": "lossleuth.record.read",
    "Status": "lossleuth.types.judgement",
    "Verdict": "lossleuth.judge.verdict",
    "assert_healthy": "lossleuth.api",
    "check_gradient": "lossleuth.gradcheck.check",
    "check_loss": "lossleuth.gradcheck.loss_check",
    "examine": "lossleuth.api",
    "run": "lossleuth.api",
    "watch": "lossleuth.watching.context",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'lossleuth' has no attribute {name!r}")
