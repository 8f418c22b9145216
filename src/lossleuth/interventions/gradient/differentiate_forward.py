"""Custom functions differentiated by torch, through what their forward does.

What a function's own backward says is not asked. Nothing has to be recorded for that, so that runs
are as fast as ever; where a forward computes outside torch it cannot be done, and the run ends.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from lossleuth.interventions.intervention import Intervention, Replace
from lossleuth.torch_internals import APPLIED, apply_unchanged, leaves_of, map_only


class DifferentiateForward(Intervention):
    """Let torch differentiate the functions of these names (comma-separated)."""

    def __init__(self, functions: str) -> None:
        self._names = frozenset(functions.split(","))

    def install(self, replace: Replace) -> None:
        """Put ours where functions are applied."""
        names = self._names

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if cls.__name__ in names and torch.is_grad_enabled() and any(_needs(args)):
                return _forward(cls, args, kwargs)
            return apply_unchanged(cls, *args, **kwargs)

        replace(APPLIED, "apply", classmethod(apply))


class _Context:
    """The context of a forward whose backward will not run."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.fixed: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Do nothing: the backward will not run."""

    save_for_forward = mark_dirty = save_for_backward

    def set_materialize_grads(self, value: bool) -> None:
        """Do nothing: the backward will not run."""

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Remember the outputs that have no gradient."""
        self.fixed = tensors


class _Uncut(TorchFunctionMode):
    """Ignore `detach` inside a custom forward, where nothing has a gradient anyway."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (Tensor.detach, Tensor.data.__get__):  # type: ignore[attr-defined]  # a property
            return args[0].view_as(args[0])
        return func(*args, **(kwargs or {}))


def _forward(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    context = _Context(tuple(_needs(args)))
    # The newer style has its context set up apart.
    apart = cls.setup_context is not Function.setup_context
    with _Uncut():
        made = cls.forward(*args, **kwargs) if apart else cls.forward(context, *args, **kwargs)
    numbers = [t for t in leaves_of(made) if isinstance(t, Tensor) and t.is_floating_point()]
    if numbers and not any(t.requires_grad for t in numbers):
        raise RuntimeError(f"{cls.__name__} computes outside torch, which cannot differentiate it")
    fixed = {id(tensor) for tensor in context.fixed}
    return map_only(Tensor, lambda t: t.detach() if id(t) in fixed else t, made)


def _needs(args: tuple[Any, ...]) -> list[bool]:
    return [isinstance(a, Tensor) and a.requires_grad for a in args]
