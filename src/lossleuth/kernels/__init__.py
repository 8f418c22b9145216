"""Fast loss kernels, each with a plain torch version.

The losses below are imported when they are first used: `doctor` asks for the library without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossleuth.kernels.divergence import kl_divergence as kl_divergence
    from lossleuth.kernels.linear_loss import linear_cross_entropy as linear_cross_entropy
    from lossleuth.kernels.losses import cross_entropy as cross_entropy
    from lossleuth.kernels.losses import cross_entropy_with_gradient as cross_entropy_with_gradient

__all__ = ["cross_entropy", "cross_entropy_with_gradient", "kl_divergence", "linear_cross_entropy"]

_HOMES = {
    "cross_entropy": "lossleuth.kernels.losses",
    "cross_entropy_with_gradient": "lossleuth.kernels.losses",
    "kl_divergence": "lossleuth.kernels.divergence",
    "linear_cross_entropy": "lossleuth.kernels.linear_loss",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'lossleuth.kernels' has no attribute {name!r}")
