"""A function with a claimed gradient, as a check sees it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A scalar function of named vectors, with a claimed gradient."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    claimed: tuple[Vector, ...]
    at: Callable[[tuple[Any, ...]], float]
    # Its slope along a direction, where torch knows it.
    forward: Callable[[tuple[Vector, ...]], float | None]
    epsilon: float
    # What its values are rounded to, where they are the change of something larger.
    noise: float = 0.0


# torch functions


def torch_problem(function: Callable[..., Any], inputs: list[Any], seed: int) -> Problem:
    """Torch's backward through a function, in float64 if the function supports it."""
    places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.is_floating_point()]
    if not places:
        raise TypeError("expected a floating-point tensor among the inputs, found none")
    wide = [x.detach().double() if i in places else x for i, x in enumerate(inputs)]
    weights: list[Tensor] = []

    def scalar(given: list[Any]) -> Tensor:
        out = function(*given)
        outs = [o for o in (out if isinstance(out, list | tuple) else (out,)) if _is_float(o)]
        if not outs:
            found = type(out).__name__
            raise TypeError(f"expected floating-point tensors from the function, found {found}")
        if not weights:
            generator = torch.Generator().manual_seed(seed)
            weights.extend(
                torch.ones((), dtype=o.dtype)
                if o.dim() == 0
                else torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o)
                for o in outs
            )
        total = [(o * w.to(o)).sum() for o, w in zip(outs, weights, strict=True)]
        return torch.stack([t.double() for t in total]).sum()

    base, epsilon = wide, 2.0**-52
    try:
        claimed = _backward(scalar, base, places)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        # Not made for float64: judged in its own type, with that type's rounding.
        base = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
        weights.clear()
        claimed = _backward(scalar, base, places)
        epsilon = max(float(torch.finfo(base[i].dtype).eps) for i in places)
    for i in places:
        epsilon = max(epsilon, float(torch.finfo(base[i].dtype).eps))

    def at(values: tuple[Any, ...]) -> float:
        given = list(base)
        for place, value in zip(places, values, strict=True):
            given[place] = value
        with torch.no_grad():
            return float(scalar(given))

    def whole(values: tuple[Any, ...]) -> Tensor:
        given = list(base)
        for place, value in zip(places, values, strict=True):
            given[place] = value
        return scalar(given)

    values = tuple(base[i] for i in places)
    forward = _forward_mode(whole, values)
    names = tuple(f"input {i}" for i in places)
    return Problem(
        names=names, values=values, claimed=claimed, at=at, forward=forward, epsilon=epsilon
    )


def _forward_mode(
    function: Callable[[tuple[Any, ...]], Any], values: tuple[Any, ...]
) -> Callable[[tuple[Vector, ...]], float | None]:
    """Torch's forward-mode derivative of a function along a direction; None if it has none."""
    possible = all(isinstance(v, Tensor) and v.dtype == torch.float64 for v in values)

    def forward(directions: tuple[Vector, ...]) -> float | None:
        nonlocal possible
        # Tried by the first use, since a trial of its own would take as long.
        try:
            return _tangent(function, values, directions) if possible else None
        except (RuntimeError, NotImplementedError, TypeError, AttributeError, ValueError):
            possible = False
            return None

    return forward


def _tangent(
    function: Callable[[tuple[Any, ...]], Any],
    values: tuple[Any, ...],
    directions: tuple[Vector, ...],
) -> float:
    # The fused kernels of attention have no forward-mode derivative.
    plain = sdpa_kernel(SDPBackend.MATH)
    with warnings.catch_warnings(), forward_ad.dual_level(), plain:
        # Torch compiles some rules on first use, in a way that it has deprecated itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        given = tuple(
            forward_ad.make_dual(value, torch.as_tensor(direction).to(value))  # type: ignore[no-untyped-call]  # untyped
            for value, direction in zip(values, directions, strict=True)
        )
        out = forward_ad.unpack_dual(function(given))  # type: ignore[no-untyped-call]  # untyped
        return 0.0 if out.tangent is None else float(out.tangent)


def _backward(
    scalar: Callable[[list[Any]], Tensor], base: list[Any], places: list[int]
) -> tuple[Vector, ...]:
    with torch.enable_grad():
        given = list(base)
        for place in places:
            given[place] = base[place].clone().requires_grad_()
        out = scalar(given)
        if not out.requires_grad:
            raise TypeError("expected a result that torch can differentiate, found a constant")
        found = torch.autograd.grad(out, [given[i] for i in places], allow_unused=True)
    return tuple(
        np.zeros(tuple(base[i].shape)) if g is None else g.detach().double().cpu().numpy()
        for i, g in zip(places, found, strict=True)
    )


# any function


def given_problem(
    loss: Callable[..., Any], gradient: Any, parameters: Sequence[Any] | Mapping[str, Any]
) -> Problem:
    """A given gradient of a function of tensors or arrays."""
    named = dict(parameters) if isinstance(parameters, Mapping) else None
    if named is None:
        sequence = list(parameters)
        named = {f"parameter {i}": value for i, value in enumerate(sequence)}
    if not named:
        raise TypeError("expected parameters, found none: pass a list of tensors or arrays")
    names, values = tuple(named), tuple(_detached(n, v) for n, v in named.items())
    given = gradient(*values) if callable(gradient) else gradient
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing:
            raise ValueError(f"expected a gradient for each parameter, found none for {missing[0]}")
        given = [given[name] for name in names]
    if isinstance(given, np.ndarray | Tensor | np.generic | float | int):
        given = [given]
    given = list(given)
    for name, one in zip(names, given, strict=False):
        if one is None:
            raise ValueError(f"expected a gradient for each parameter, found None for {name}")
    claimed = tuple(array(g) for g in given)
    if [c.shape for c in claimed] != [np.shape(array(v)) for v in values]:
        expected = ", ".join(str(np.shape(array(v))) for v in values)
        found = ", ".join(str(c.shape) for c in claimed)
        raise ValueError(f"expected gradients of shapes {expected}, found {found}")
    epsilon = max(_epsilon(v) for v in values)

    def at(moved: tuple[Any, ...]) -> float:
        value = array(loss(*moved))
        if value.size != 1:
            raise ValueError(f"expected a single number from the loss, found shape {value.shape}")
        return float(value.reshape(()))

    forward = _forward_mode(lambda moved: loss(*moved), values)
    return Problem(
        names=names,
        values=values,
        claimed=claimed,
        at=at,
        forward=forward,
        epsilon=max(epsilon, 2.0**-52),
    )


def _detached(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            raise TypeError(f"expected floating-point parameters, found {name} of {value.dtype}")
        return value.detach()
    found = np.asarray(value)
    # Whole numbers cannot be moved a little.
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def array(value: Any) -> Vector:
    """A value as an array of float64."""
    if isinstance(value, Tensor):
        value = value.detach().double().cpu().numpy()
    return np.asarray(value, dtype=np.float64)


def shifted(value: Any, by: Vector, times: float = 1.0) -> Any:
    """A value plus a multiple of something, of the same kind and type."""
    if isinstance(value, Tensor):
        added = torch.as_tensor(by, device=value.device)
        return torch.add(value.double(), added, alpha=times).to(value.dtype)
    return np.asarray(value.astype(np.float64) + times * by, dtype=value.dtype)


def size(value: Any) -> float:
    """Typical size of a value, for a step that suits it."""
    numbers = array(value)
    found = math.sqrt(dot(numbers, numbers) / numbers.size) if numbers.size else 1.0
    return found if found > 0 else 1.0


def dot(one: Vector, other: Vector) -> float:
    """Sum of products, without a copy of them."""
    # Of lists of numbers: numpy's own for arrays of several axes is not a sum of all products.
    return float(np.dot(one.reshape(-1), other.reshape(-1)))


def _epsilon(value: Any) -> float:
    if isinstance(value, Tensor):
        return float(torch.finfo(value.dtype).eps)
    return float(np.finfo(value.dtype).eps)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
