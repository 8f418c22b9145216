"""What clipping does to a gradient: how much of it is kept, and whether it is turned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from lossleuth.native.handles import Handles
from lossleuth.torch_internals import is_wrapped, item, unwrapped


@dataclass
class Clip:
    """One call that clipped gradients: norm of its set before, and how much of it was kept."""

    norm: Any
    limit: float
    by_value: bool = False
    cosine: float | None = None


class ClipEffect(NamedTuple):
    """What clipping did to the whole gradient."""

    norm_before: float
    factor: float
    cosine: float


def clip_effect(norm_after: float, clips: list[Clip]) -> ClipEffect:
    """Reconstruct the unclipped gradient: its norm, the factor kept, and the change of direction.

    A norm clip scales its own set of tensors; what is outside the set keeps its length, so that
    clipping a part turns the whole gradient.

    >>> clip_effect(norm_after=1.0, clips=[Clip(norm=4.0, limit=1.0)])
    ClipEffect(norm_before=4.0, factor=0.25, cosine=1.0)
    """
    by_value = next((clip for clip in clips if clip.by_value), None)
    if by_value is not None:
        norm_before = plain_number(by_value.norm)
        cosine = math.nan if by_value.cosine is None else by_value.cosine
    else:
        before = dot = norm_after**2
        for clip in clips:
            norm = plain_number(clip.norm)
            kept = min(1.0, clip.limit / norm) if norm > 0 else 1.0
            before += norm**2 - (norm * kept) ** 2
            dot += norm**2 * kept - (norm * kept) ** 2
        norm_before = math.sqrt(before) if before > 0 else 0.0
        product = norm_before * norm_after
        cosine = min(1.0, dot / product) if product > 0 else 1.0
    factor = norm_after / norm_before if norm_before > 0 else 1.0
    return ClipEffect(norm_before, factor, cosine)


class ClipImpact:
    """What the clipping so far did to the size of updates.

    An optimizer that divides by the root of its second moment undoes a constant factor: clipping
    every step to a tenth then changes nothing. Followed by the norm alone, as if the direction
    stayed, so it is an estimate.

    >>> impact, adam = ClipImpact(), (0.9, 0.999)
    >>> [round(impact.after(10.0, 0.1, adam), 3) for _ in range(2)]
    [1.0, 1.0]
    >>> round(impact.after(100.0, 0.01, adam), 3)
    1.35
    >>> ClipImpact().after(10.0, 0.1, None)
    0.1
    """

    def __init__(self) -> None:
        # First and second moment of the norm, each with clipping and without.
        self._moments = [(0.0, 0.0), (0.0, 0.0)]

    def after(self, norm: float, factor: float, betas: tuple[float, float] | None) -> float:
        """The update's size with clipping over that without it, in this step."""
        if betas is None:
            return factor
        first, second = betas
        self._moments = [
            (m + (1 - first) * (size - m), v + (1 - second) * (size * size - v))
            for (m, v), size in zip(self._moments, (norm * factor, norm), strict=True)
        ]
        clipped, plain = (m / math.sqrt(v) if v > 0 else math.nan for m, v in self._moments)
        return clipped / plain if plain else math.nan


def plain_number(value: Any) -> float:
    """The number in a tensor of one element, read past the method that a watch replaces.

    >>> plain_number(2)
    2.0
    """
    return float(item(value) if isinstance(value, Tensor) else value)


def kept(value: Any, torch_tells: Handles | None = None) -> Any:
    """A number as it is now; from a device it is fetched later, so that nothing waits for it.

    None where there are several behind it.

    >>> import torch
    >>> kept(torch.tensor(2.5)), kept(2.5)
    (2.5, 2.5)
    """
    found = None if torch_tells is None else torch_tells.numbers([value])
    # A single number may be plain memory and still to be negated.
    if found is not None and not value.is_neg():
        return found[0]
    if isinstance(value, Tensor) and is_wrapped(value):
        value = unwrapped(value)
        if value.numel() != 1:
            # One for each example that `vmap` takes at once.
            return None
    if type(value) is Tensor and value.is_cpu and value.numel() == 1:
        return item(value)
    return value.detach().clone() if isinstance(value, Tensor) else value


def value_clip_effect(parameters: Sequence[Any], limit: float) -> tuple[float, float]:
    """Norm of the gradient before it is clamped, and the cosine between before and after."""
    before = after = dot = 0.0
    for gradient in _gradients(parameters):
        clamped = gradient.clamp(-limit, limit)
        before += float((gradient * gradient).sum())
        after += float((clamped * clamped).sum())
        dot += float((gradient * clamped).sum())
    product = math.sqrt(before * after)
    return math.sqrt(before), dot / product if product else 1.0


def _gradients(parameters: Sequence[Any]) -> Iterator[Any]:
    for parameter in parameters:
        if parameter.grad is not None:
            gradient = parameter.grad.detach()
            yield (gradient.coalesce().values() if gradient.is_sparse else gradient).double()
