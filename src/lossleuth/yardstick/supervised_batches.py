"""Which token of a kept batch each target belongs to.

A program lays out its tokens and targets as it likes: texts or time first, shifted by itself or
not, in one piece or in chunks. Whatever layout makes the targets the next tokens is the right one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lossleuth.record.kept_batches import KeptMicroBatch, KeptStep, KeptTargets, Rows

# Share of targets that are the next token of their row, in a right layout. Not all: the last target
# of a text need not be among its tokens. Picked by hand; a wrong layout explains a tenth.
MIN_AGREEMENT = 0.8
# A position without a target.
NONE = -1


@dataclass(frozen=True)
class Batch:
    """Rows of tokens, a target for each position (`NONE` where there is none), and how many."""

    tokens: Rows
    targets: Rows

    @property
    def count(self) -> int:
        """How many targets there are."""
        return int((self.targets != NONE).sum())


@dataclass(frozen=True)
class Supervision:
    """What recorded steps say of the targets: how they were found if no loss was seen to take any.

    >>> Supervision(pad=0).following(np.array([[5, 7, 0]], dtype=np.int32)).targets.tolist()
    [[7, -1, -1]]
    """

    # A token that is padding and is not supervised.
    pad: int | None = None
    # The time axis of the tokens.
    time_axis: int = 1
    # By step, how many targets count.
    supervised: Mapping[int, int] = field(default_factory=dict)

    def following(self, tokens: Rows) -> Batch:
        """Every token but padding is to be predicted by the one before it."""
        tokens = tokens if self.time_axis else np.ascontiguousarray(tokens.T)
        targets = np.full(tokens.shape, NONE, np.int32)
        targets[:, :-1] = tokens[:, 1:]
        if self.pad is not None:
            targets[targets == self.pad] = NONE
        return Batch(tokens, targets)


def batches_of(step: KeptStep, supervision: Supervision) -> list[Batch] | None:
    """The batches of a step; None where it is not known what their targets are."""
    found = []
    for micro_batch in step.micro_batches:
        batch = placed(micro_batch)
        if batch is None and not micro_batch.targets and micro_batch.lookups:
            batch = supervision.following(max(micro_batch.lookups, key=lambda rows: rows.size))
        if batch is None or (batch.tokens < 0).any():
            return None
        if batch.count:
            found.append(batch)
    return found or None


def placed(micro_batch: KeptMicroBatch) -> Batch | None:
    """The layout in which most targets are the next token of their row."""
    best, most, last = None, MIN_AGREEMENT, None
    for tokens in _rows_of_tokens(micro_batch.lookups):
        for targets in _rows_of_targets(micro_batch.targets, tokens.shape):
            share = _agreement(tokens, targets)
            if share is None:
                last = last or _of_windows(tokens, targets, micro_batch.targets)
            elif share >= most:
                best, most = Batch(tokens, targets), share + 1e-9
    return best or last


def _rows_of_tokens(lookups: Sequence[Rows]) -> Iterator[Rows]:
    """What may be the tokens, a row for each text."""
    # A loader hands out labels too, with a negative number where there is none.
    lookups = [rows for rows in lookups if rows.size and rows.min() >= 0]
    for rows in lookups:
        yield rows
        if len(rows) > 1:
            yield np.ascontiguousarray(rows.T)
    if len(lookups) > 1 and len({rows.size for rows in lookups}) == 1:
        # A loop over time looks up a column at a time.
        yield np.stack([rows.reshape(-1) for rows in lookups], axis=1)


def _rows_of_targets(
    kept: Sequence[KeptTargets], shape: tuple[int, ...]
) -> Iterator[NDArray[np.int32]]:
    """What may be the targets of tokens of that shape."""
    flat = [_counted(targets) for targets in kept]
    if len(flat) > 1:
        # In chunks: of all positions, or of each text.
        rows = shape[0]
        flat.append(np.concatenate(flat))
        if all(part.size % rows == 0 for part in flat):
            flat.append(np.hstack([part.reshape(rows, -1) for part in flat[:-1]]).reshape(-1))
            flat.append(np.vstack([part.reshape(-1, rows) for part in flat[: len(kept)]]).T.ravel())
    for part in flat:
        yield from _laid_out(part, shape)


def _laid_out(flat: NDArray[np.int32], shape: tuple[int, ...]) -> Iterator[NDArray[np.int32]]:
    rows, width = shape
    for length in (width, width - 1):
        if flat.size == rows * length and length:
            for by_row in (flat.reshape(rows, length), flat.reshape(length, rows).T):
                found = np.full(shape, NONE, np.int32)
                found[:, :length] = by_row
                yield found
    if flat.size == rows:
        found = np.full(shape, NONE, np.int32)
        found[:, -1] = flat
        yield found


def _counted(targets: KeptTargets) -> NDArray[np.int32]:
    values = targets.values.reshape(-1)
    return np.where((values == targets.ignored) | (values < 0), NONE, values).astype(np.int32)


def _agreement(tokens: Rows, targets: NDArray[np.int32]) -> float | None:
    """Share of targets that are the next token of their row; None where no row goes on."""
    inside = targets[:, :-1]
    counted = inside != NONE
    return float((inside == tokens[:, 1:])[counted].mean()) if counted.any() else None


def _of_windows(
    tokens: Rows, targets: NDArray[np.int32], kept: Sequence[KeptTargets]
) -> Batch | None:
    """One target behind each row: the next token, if it is chosen among tokens."""
    classes = max(one.classes for one in kept)
    is_token = tokens.shape[1] > 1 and classes > int(tokens.max()) and (targets != NONE).any()
    return Batch(tokens, targets) if is_token else None
