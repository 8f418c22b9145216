"""`torch.autograd.gradcheck` in fast mode, for large functions.

After a fault it looks at every entry to word its message, which takes hours for millions of them;
the answer is known by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

# The function of that name hides the module.
_module = import_module("torch.autograd.gradcheck")


def passes(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> bool:
    """Whether gradcheck finds the gradient right."""
    with patch.object(_module, "_run_slow_mode_and_get_error", _no_details):
        return bool(
            torch.autograd.gradcheck(function, inputs, fast_mode=True, raise_exception=False)
        )


def _no_details(*_: Any) -> str:
    return "the details are left out"
