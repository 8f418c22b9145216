"""A torch state that does not depend on the watched program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def neutral(*, float64: bool, gradients: bool) -> Iterator[None]:
    """Leave inference mode and autocast, set gradients as given, and restore it all at the end.

    >>> with torch.no_grad(), neutral(float64=True, gradients=True):
    ...     torch.is_grad_enabled(), torch.get_default_dtype()
    (True, torch.float64)
    """
    default, random = torch.get_default_dtype(), torch.get_rng_state()
    try:
        with (
            torch.inference_mode(mode=False),
            torch.set_grad_enabled(gradients),
            torch.autocast("cpu", enabled=False),
        ):
            if float64:
                torch.set_default_dtype(torch.float64)
            yield
    finally:
        torch.set_default_dtype(default)
        torch.set_rng_state(random)
