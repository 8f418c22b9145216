"""Autocast off in the whole run, or on in every forward pass.

Off: whoever switches autocast on, by `torch.autocast` or by torch's setters, switches it off. What
was compiled with autocast in it is not reached.

On: a module that is called from outside any other runs under bfloat16 autocast on CPU, and what it
gives is made float32 again, as mixed-precision libraries do. So the loss is taken in float32 unless
the model takes it itself. A model that is not all float32 chose its precision, as did a program
that autocasts already: both stay as they are, as does work outside modules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lossleuth.interventions.intervention import Intervention, Replace
from lossleuth.torch_internals import map_only

# `torch.autocast` goes through the first when it is entered and when it is left.
SETTERS = ("set_autocast_enabled", "set_autocast_cpu_enabled")


class Autocast(Intervention):
    """Change the precision of forward passes."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._inside = False

    def install(self, replace: Replace) -> None:
        """Patch torch's switch, or wrap the forward passes of modules."""
        if self._enabled:
            replace(nn.Module, "__call__", self._narrow(nn.Module.__call__))
        else:
            for name in SETTERS:
                replace(torch, name, _always_off(getattr(torch, name)))

    def _narrow(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def under_autocast(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            on = torch.is_autocast_enabled("cpu")
            if self._inside or on or not _is_single_precision(module):
                return call(module, *args, **kwargs)
            self._inside = True
            try:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    found = call(module, *args, **kwargs)
            finally:
                self._inside = False
            return map_only(Tensor, _widened, found)

        return under_autocast


def _always_off(setter: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(setter)
    def off(*args: Any, **named: Any) -> None:
        # The switch is the last of them; a device may stand before it.
        if "enabled" in named:
            setter(*args, **named | {"enabled": False})
        else:
            setter(*args[:-1], False)

    return off


def _is_single_precision(module: nn.Module) -> bool:
    types = {p.dtype for p in module.parameters() if p.is_floating_point()}
    return types == {torch.float32}


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor
