"""Finds the files that weights and tokens came from by their values, however they were read.

Whatever call loaded a checkpoint or a token file, its numbers stand in the file. So a few values
of every initial weight, and a few runs of tokens from the first batches, are looked for in the
files that the run has read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.observe.provenance.tensor_files import Stored, stored_tensors

# Values of a tensor that are compared, and how many must differ for a match to mean anything.
SAMPLE = 32
MIN_DISTINCT = 8
# Length of a run of tokens to search for; a run with too few distinct tokens could be anywhere.
RUN = 24
TOKEN_TYPES = ("<u2", "<u4", "<i8", "|u1", ">u2", ">u4")
CHUNK = 1 << 24
SECONDS = 2.0
MAX_NAMED = 20

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True)
class WeightSample:
    """The first values of a weight before its first update."""

    values: Tensor
    elements: int

    @classmethod
    def of(cls, parameter: Tensor) -> WeightSample:
        """A sample of a parameter as it is now."""
        flat = parameter.detach().reshape(-1)[:SAMPLE]
        return cls(flat.to("cpu", copy=True), parameter.numel())

    @property
    def says_something(self) -> bool:
        """Whether its values are distinctive: zeros and ones are in every file."""
        return self.values.is_floating_point() and len(set(self.values.tolist())) >= MIN_DISTINCT


def weight_origins(samples: dict[str, WeightSample], paths: Iterable[str]) -> dict[str, Any]:
    """The share of the weights found in each file, and the weights found in none.

    >>> weight_origins({"bias": WeightSample.of(torch.zeros(64))}, [])
    {'files': [], 'unexplained': [], 'unexplained_share': 0.0, 'undecidable_share': 1.0}
    """
    total = sum(sample.elements for sample in samples.values())
    own = {name: sample for name, sample in samples.items() if sample.says_something}
    found: set[str] = set()
    files = []
    for path in paths:
        inside = _weights_inside(own, path)
        if inside:
            found |= inside
            share = sum(own[name].elements for name in inside) / total
            files.append({"file": path, "tensors": len(inside), "share": share})
    unexplained = [name for name in own if name not in found]
    lost = sum(own[name].elements for name in unexplained)
    plain = total - sum(sample.elements for sample in own.values())
    return {
        "files": sorted(files, key=lambda file: -float(file["share"])),
        "unexplained": unexplained[:MAX_NAMED],
        "unexplained_share": lost / total if total else 0.0,
        "undecidable_share": plain / total if total else 0.0,
    }


def _weights_inside(samples: dict[str, WeightSample], path: str) -> set[str]:
    """Names of the weights whose values begin a tensor that is stored in a file."""
    wanted: dict[bytes, set[str]] = {}
    types = {sample.values.dtype for sample in samples.values()}
    for name, sample in samples.items():
        wanted.setdefault(_key(sample.values), set()).add(name)
    found: set[str] = set()
    try:
        with Path(path).open("rb") as file:
            for stored in stored_tensors(file):
                for key in _keys(file, stored, types):
                    found |= wanted.get(key, set())
    except OSError:
        return set()
    return found


def _keys(file: Any, stored: Stored, types: set[torch.dtype]) -> Iterable[bytes]:
    """What the beginning of a stored tensor becomes when it is loaded as each of these types."""
    for there in FLOATS if stored.dtype is None else (stored.dtype,):
        file.seek(stored.offset)
        data = file.read(min(SAMPLE * there.itemsize, stored.size))
        whole = len(data) // there.itemsize * there.itemsize
        if whole:
            values = torch.frombuffer(bytearray(data[:whole]), dtype=there)
            for wanted in types:
                yield _key(values.to(wanted))


def _key(values: Tensor) -> bytes:
    data: bytes = values.double().numpy().tobytes()
    return str(values.dtype).encode() + data


def token_run(tokens: Tensor) -> NDArray[np.int64] | None:
    """A run of tokens distinctive enough to search for, or None."""
    if not tokens.numel():
        return None
    row = tokens.detach().reshape(-1, tokens.shape[-1])[0].cpu().numpy().astype(np.int64)
    run = row[:RUN]
    return run if len(np.unique(run)) >= MIN_DISTINCT and run.min() >= 0 else None


def token_origin(
    runs: Sequence[NDArray[np.int64]],
    paths: Iterable[str],
    seconds: float = SECONDS,
    row: int | None = None,
) -> dict[str, Any] | None:
    """The file that holds most of these runs, with the type and place they have there.

    Of several, one in which they begin rows of that length: the same text may stand in another at
    any place.
    """
    best: dict[str, Any] | None = None
    best_rank = (0, False)
    until = time.monotonic() + seconds
    for path in paths:
        for kind in TOKEN_TYPES:
            limit = np.iinfo(np.dtype(kind)).max
            patterns = [run.astype(kind).tobytes() for run in runs if run.max() <= limit]
            places = [_find(path, pattern, until) for pattern in patterns]
            hits = [place for place in places if place is not None]
            rank = (len(hits), row is not None and _begin_rows(path, hits, row * int(kind[-1])))
            if hits and rank > best_rank:
                best_rank = rank
                best = {"file": path, "dtype": np.dtype(kind).name, "offset": hits[0]}
                best |= {"big_endian": kind.startswith(">")}
                best |= {"runs_found": len(hits), "runs_looked_for": len(runs)}
    return best


def _begin_rows(path: str, offsets: Sequence[int], size: int) -> bool:
    """Whether rows of so many bytes, at the end of a file after some header, begin there."""
    try:
        whole = Path(path).stat().st_size
    except OSError:
        return False
    return all((whole - offset) % size == 0 for offset in offsets)


def _find(path: str, pattern: bytes, until: float) -> int | None:
    """Offset of the first occurrence of these bytes, if found in time."""
    try:
        with Path(path).open("rb") as file:
            at, kept = 0, b""
            while time.monotonic() < until and (chunk := file.read(CHUNK)):
                data = kept + chunk
                place = data.find(pattern)
                if place >= 0:
                    return at - len(kept) + place
                at += len(chunk)
                kept = data[-len(pattern) + 1 :]
    except OSError:
        pass
    return None
