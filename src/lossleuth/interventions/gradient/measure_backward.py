"""Custom functions differentiated by differences of their values.

Torch cannot differentiate a forward that computes outside it. Its values can be asked instead: two
for each entry of an input. Where parts of an input, such as its rows, act on their own part of the
results alone, as is tried first, one entry of each part is moved at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lossleuth.interventions.intervention import Intervention, Replace
from lossleuth.torch_internals import APPLIED, apply_unchanged

# How far an entry is moved, as a share of the input's size: between the error of float32 and that
# of the curvature.
STEP_SHARE = 2.0**-7
# Values asked for at most to differentiate one input once. Picked by hand.
MAX_VALUES = 4096

Values = Callable[[Tensor], list[Tensor]]


class MeasureBackward(Intervention):
    """Differentiate the functions of these names (comma-separated) by their values."""

    def __init__(self, functions: str) -> None:
        self._names = frozenset(functions.split(","))
        # How many leading axes of an input act apart, by function, input and shapes.
        self._apart: dict[Any, int] = {}

    def install(self, replace: Replace) -> None:
        """Put ours where functions are applied."""
        names, apart = self._names, self._apart

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            needed = any(isinstance(a, Tensor) and a.requires_grad for a in args)
            if cls.__name__ in names and torch.is_grad_enabled() and needed:
                call = partial(apply_unchanged, cls, **kwargs)
                # By its own `apply`, by which a recording knows it.
                measured: Any = _Measured
                return measured.apply(call, cls.__name__, apart, *args)
            return apply_unchanged(cls, *args, **kwargs)

        replace(APPLIED, "apply", classmethod(apply))


class _Measured(Function):
    """The results of a function, with a backward that asks its values."""

    @staticmethod
    def forward(ctx: Any, call: Any, name: str, apart: dict[Any, int], *args: Any) -> Any:
        plain = [a.detach() if isinstance(a, Tensor) else a for a in args]
        ctx.call, ctx.name, ctx.apart = call, name, apart
        ctx.args = [a.clone() if isinstance(a, Tensor) else a for a in plain]
        made = call(*plain)
        results = made if isinstance(made, tuple) else (made,)
        ctx.mark_non_differentiable(
            *(r for r in results if isinstance(r, Tensor) and not r.is_floating_point())
        )
        return made

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
        found: list[Tensor | None] = []
        with torch.no_grad():
            for which, argument in enumerate(ctx.args):
                wanted = isinstance(argument, Tensor) and ctx.needs_input_grad[which + 3]
                found.append(_gradient(ctx, which, argument, given) if wanted else None)
        return (None, None, None, *found)


def _gradient(ctx: Any, which: int, x: Tensor, given: Sequence[Tensor | None]) -> Tensor:
    """What the results, times these gradients, change by with one input."""

    def values(moved: Tensor) -> list[Tensor]:
        args = [moved if i == which else a for i, a in enumerate(ctx.args)]
        made = ctx.call(*[a.clone() if isinstance(a, Tensor) else a for a in args])
        results = made if isinstance(made, tuple) else (made,)
        # A function may hand out the same memory every time.
        return [r.clone() for r, seed in zip(results, given, strict=True) if seed is not None]

    seeds = [seed.double() for seed in given if seed is not None]
    key = (ctx.name, which, x.shape, *(seed.shape for seed in seeds))
    if key not in ctx.apart:
        ctx.apart[key] = _axes_apart(values, x)
    parts = math.prod(x.shape[: ctx.apart[key]])
    entries = x.numel() // max(1, parts)
    if 2 * entries > MAX_VALUES:
        raise RuntimeError(
            f"{ctx.name} computes outside torch, and to measure its gradient would take "
            f"{2 * entries} values, not {MAX_VALUES} at most"
        )
    step = STEP_SHARE * (float(x.double().square().mean().sqrt()) or 1.0)
    gradient = torch.zeros(parts, entries, dtype=torch.float64)
    for entry in range(entries):
        high, low = (x.clone().reshape(parts, entries) for _ in range(2))
        high[:, entry] += step
        low[:, entry] -= step
        apart = (high[:, entry].double() - low[:, entry].double()).clamp_min(1e-300)
        above, below = (values(moved.reshape(x.shape)) for moved in (high, low))
        for one, other, seed in zip(above, below, seeds, strict=True):
            change = (one.double() - other.double()) * seed.reshape(one.shape)
            gradient[:, entry] += change.reshape(parts, -1).sum(1) / apart
    return gradient.reshape(x.shape).to(x.dtype)


def _axes_apart(values: Values, x: Tensor) -> int:
    """How many leading axes of an input and its results belong together, part by part.

    >>> x = torch.randn(3, 4)
    >>> _axes_apart(lambda x: [x.tanh()], x), _axes_apart(lambda x: [x.softmax(-1)], x)
    (2, 1)
    """
    before = values(x)
    for axes in range(x.dim(), 0, -1):
        shared = x.shape[:axes]
        parts = math.prod(shared)
        if all(made.shape[:axes] == shared for made in before) and all(
            _acts_apart(values, x, before, parts, part) for part in {0, parts // 2, parts - 1}
        ):
            return axes
    return 0


def _acts_apart(values: Values, x: Tensor, before: list[Tensor], parts: int, part: int) -> bool:
    """Whether moving one part leaves the results of all others as they were."""
    moved = x.clone().reshape(parts, -1)
    moved[part] = moved[part] * 1.5 + 0.1
    for made, old in zip(values(moved.reshape(x.shape)), before, strict=True):
        same = (made == old).reshape(parts, -1).all(1)
        same[part] = True
        if not bool(same.all()):
            return False
    return True
