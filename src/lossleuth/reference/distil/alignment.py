"""The same places of a text in two tokenizations of it.

A student's position and a teacher's are the same when exactly the same text is before them.
Positions without an equal are not compared; none is interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.reference.distil.host_tokenizer import HostTokenizer
from lossleuth.reference.train.data import IGNORED, Batch, Tokens, Windows
from lossleuth.reference.train.tokenizer import WORDS, BpeTokenizer, CharTokenizer, Tokenizer
from lossleuth.types.errors import BadInput

Places = NDArray[np.int64]
# Where a token ends inside a character: the same place of no other.
INSIDE = -1


@dataclass(frozen=True)
class AlignedBatch:
    """The teacher's tokens for a batch of the student's, and which positions are the same."""

    inputs_BU: Tensor
    student_n: Tensor
    teacher_n: Tensor


@dataclass(frozen=True)
class Alignment:
    """Both token streams of one corpus, and after how much text each token ends."""

    student_ends: Places
    teacher: Tokens
    teacher_ends: Places
    context: int

    def batch(self, batch: Batch, windows: Windows) -> AlignedBatch:
        """The teacher's windows for the student's, from the same text on."""
        rows, student_n, teacher_n = [], [], []
        T = batch.inputs_BT.size(1)
        for row, window in enumerate(batch.windows.tolist()):
            start, length = int(windows.starts[window]), int(windows.lengths[window])
            ends = self.student_ends[start : start + length]
            known = ends[ends >= 0]
            first = int(np.searchsorted(self._sorted, known[0] if len(known) else 0))
            theirs = self.teacher_ends[first : first + self.context]
            rows.append(self.teacher[first : first + self.context].astype(np.int64))
            _, mine, other = np.intersect1d(ends, theirs, return_indices=True)
            keep = (ends[mine] >= 0) & (batch.targets_BT[row].numpy()[mine] != IGNORED)
            student_n.append(row * T + mine[keep])
            teacher_n.append(row * self.context + other[keep])
        padded = np.zeros((len(rows), self.context), dtype=np.int64)
        for row, tokens in enumerate(rows):
            padded[row, : len(tokens)] = tokens
        return AlignedBatch(
            torch.from_numpy(padded),
            torch.from_numpy(np.concatenate(student_n)),
            torch.from_numpy(np.concatenate(teacher_n)),
        )

    @property
    def _sorted(self) -> Places:
        """Ends for searching: one inside a character counts as the one before it."""
        return np.maximum.accumulate(self.teacher_ends)


def text_ends(tokenizer: Tokenizer, text: str) -> Places:
    """How many characters of a text are before the end of each token.

    >>> text_ends(CharTokenizer("ab"), "ab?").tolist()
    [1, 2, 3]
    """
    if isinstance(tokenizer, CharTokenizer):
        return np.arange(1, len(text) + 1)
    if isinstance(tokenizer, BpeTokenizer | HostTokenizer):
        spans = np.array(tokenizer.spans(text), dtype=np.int64).reshape(-1, 2)
        ends = spans[:, 1].copy()
        # Two tokens with bytes of one character: the first ends inside it.
        ends[:-1][spans[1:, 0] < spans[:-1, 1]] = INSIDE
        return ends
    return np.cumsum([len(word) for word in WORDS.findall(text)]).astype(np.int64)


def stream_ends(tokenizer: Tokenizer, pieces: Sequence[str], *, lone: bool) -> Places:
    """The same for a whole stream of pieces, where each mark counts as one character.

    Pieces are whole documents, each between two marks, or the two parts of a `lone` one.

    >>> stream_ends(CharTokenizer("ab"), ["ab", "a"], lone=False).tolist()
    [1, 2, 3, 4, 5, 6]
    """
    parts, before = [np.array([1])], 1
    for index, piece in enumerate(pieces):
        ends = text_ends(tokenizer, piece)
        parts.append(np.where(ends == INSIDE, INSIDE, ends + before))
        before += len(piece)
        if not lone or index == len(pieces) - 1:
            before += 1
            parts.append(np.array([before]))
    return np.concatenate(parts)


def check_ends(ends: Places, tokens: Tokens, whose: str) -> None:
    """Refuse a tokenizer that does not say where its tokens end."""
    if len(ends) != len(tokens):
        raise BadInput(
            f"to know where each of the {whose}'s {len(tokens)} tokens ends in the text",
            f"{len(ends)} ends",
            "use the teacher's tokenizer for the student",
        )
