"""Logits that are generated, or read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.labs.precision.step import Step, drawn_targets, most_rows
from lossleuth.types.errors import BadInput

# Standard deviations of the generated rows, from a fresh model's to a very sure one's.
SPREADS = (0.5, 1.0, 2.0, 4.0, 8.0)


def generated(vocabulary: int, rows: int, seed: int) -> Step:
    """A grid of rows from unsure to sure; targets are drawn from their own probabilities.

    >>> made = generated(34, 10, seed=0)
    >>> tuple(made.logits_NV.shape), [round(s, 1) for s in made.logits_NV[:2].std(1).tolist()]
    ((10, 34), [0.5, 1.1])
    """
    kept = most_rows(vocabulary, rows)
    generator = torch.Generator().manual_seed(seed)
    spreads_N = torch.tensor(SPREADS).repeat(kept // len(SPREADS) + 1)[:kept]
    logits_NV = torch.randn(kept, vocabulary, generator=generator) * spreads_N[:, None]
    # Neighbours have other spreads: whole rounds of them go to one half.
    half_N = torch.arange(kept) // len(SPREADS) % 2 == 0
    if half_N.all():
        half_N = torch.arange(kept) % 2 == 0
    source = f"a generated grid of {kept} rows, V = {vocabulary}"
    return Step(source, logits_NV, drawn_targets(logits_NV, seed), half_N)


def from_file(path: Path, targets: Path | None, rows: int, seed: int) -> Step:
    """Rows of logits from an .npy file, with their targets from another or drawn."""
    found = _array(path, "logits")
    if found.dtype.kind != "f" or found.ndim not in (2, 3) or found.shape[-1] < 2:
        raise BadInput(
            f"logits of shape [N, V] or [B, T, V] in {path}",
            f"{found.dtype} of shape {found.shape}",
            "save floating-point logits with numpy.save",
        )
    flat = found.reshape(-1, found.shape[-1])
    if len(flat) < 2:
        raise BadInput(
            "at least two rows, to measure the noise", f"{len(flat)} in {path}", "give more"
        )
    kept = most_rows(flat.shape[1], min(rows, len(flat)))
    values = np.array(flat[:kept], np.float32)
    if not (np.isfinite(values) | (values == -np.inf)).all() or np.isneginf(values).all(1).any():
        raise BadInput(
            f"finite logits in {path}, or -inf for what cannot be",
            "NaN, infinity, or a row of nothing but -inf",
            "this laboratory is about rounding: find out with `lossleuth run` where they come from",
        )
    logits_NV = torch.from_numpy(values)
    source = f"{kept} of {len(flat)} rows of {path.name}, V = {flat.shape[1]}"
    if targets is None:
        return Step(source, logits_NV, drawn_targets(logits_NV, seed), torch.arange(kept) % 2 == 0)
    return Step(
        source, logits_NV, _targets(targets, len(flat), logits_NV), torch.arange(kept) % 2 == 0
    )


def _targets(path: Path, rows: int, logits_NV: Tensor) -> Tensor:
    found = _array(path, "targets")
    kept, vocabulary = logits_NV.shape
    flat = found.reshape(-1)
    right = found.dtype.kind in "iu" and len(flat) == rows
    if not right or flat[:kept].min() < 0 or flat[:kept].max() >= vocabulary:
        raise BadInput(
            f"{rows} whole numbers from 0 to {vocabulary - 1} in {path}",
            f"{found.dtype} of shape {found.shape}",
            "give one target for each row of logits",
        )
    return torch.from_numpy(np.array(flat[:kept], np.int64))


def _array(path: Path, what: str) -> NDArray[Any]:
    try:
        # Mapped, so that a file larger than memory can be looked at; never unpickled.
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0] or "an empty file"
        raise BadInput(
            f"{what} in a file of numpy.save", f"{path}: {reason}", "check the path"
        ) from None
    if not isinstance(found, np.ndarray):
        raise BadInput(f"one array of {what}", f"several in {path}", "save it with numpy.save")
    return found
