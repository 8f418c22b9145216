"""Which text is trained on and which is held back, decided before any tokenizer sees it.

A vocabulary that was fitted on the held-back text knows something about it. So the split is made
of characters, and the tokenizer is fitted on what is left for training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lossleuth.reference.train.data import Span, Tokens, token_type
from lossleuth.reference.train.tokenizer import Tokenizer


@dataclass(frozen=True)
class Split:
    """The text in order, in pieces: whole documents, or the two parts of a lone one."""

    pieces: tuple[str, ...]
    held: frozenset[int]
    lone: bool

    @property
    def training(self) -> tuple[str, ...]:
        """The text to train on, and to fit the tokenizer on."""
        return tuple(piece for i, piece in enumerate(self.pieces) if i not in self.held)


@dataclass(frozen=True)
class EncodedSplit:
    """The tokens of all text, and which of them are on which side."""

    tokens: Tokens
    training: tuple[Span, ...]
    held: tuple[Span, ...]
    longest_document: int


def hold_back(
    documents: Sequence[str], share: float, seed: int, *, whole_words: bool = False
) -> Split:
    """Hold back about `share` of the characters: whole documents, or the end of a lone one.

    The mark that ends a document counts as one character: it is predicted too. A lone document
    is cut inside a word unless `whole_words` are asked for.

    >>> hold_back(["abcdefghi"], share=0.3, seed=0).training
    ('abcdefg',)
    >>> sorted(hold_back(["a" * 9, "b" * 9, "c" * 9], share=0.3, seed=0).held)
    [2]
    """
    sizes = [len(document) + 1 for document in documents]
    if len(documents) == 1:
        (only,) = documents
        cut = sizes[0] - max(1, round(sizes[0] * share))
        if whole_words:
            cut = _end_of_word(only, cut)
        return Split((only[:cut], only[cut:]), frozenset({1}), lone=True)
    wanted = share * sum(sizes)
    held: set[int] = set()
    taken = 0
    for index in np.random.default_rng(seed).permutation(len(sizes)).tolist():
        # A document is taken when that brings the share nearer to what was asked.
        if abs(taken + sizes[index] - wanted) < abs(taken - wanted):
            held.add(index)
            taken += sizes[index]
    if not held:
        held.add(min(range(len(sizes)), key=sizes.__getitem__))
    return Split(tuple(documents), frozenset(held), lone=False)


def _end_of_word(text: str, cut: int) -> int:
    """The last end of a word up to `cut`, or `cut` where there is none.

    >>> _end_of_word("one two three", 9), _end_of_word("one", 2)
    (7, 2)
    """
    for place in range(cut, 0, -1):
        if text[place : place + 1].isspace() and not text[place - 1].isspace():
            return place
    return cut


def encode_split(split: Split, tokenizer: Tokenizer) -> EncodedSplit:
    """Encode every piece; each document stands between two end-of-text tokens.

    >>> from lossleuth.reference.train.tokenizer import CharTokenizer
    >>> encoded = encode_split(hold_back(["abab"], share=0.5, seed=0), CharTokenizer("ab"))
    >>> encoded.tokens.tolist(), encoded.training, encoded.held
    ([0, 2, 3, 2, 3, 0], (Span(start=0, stop=3),), (Span(start=3, stop=5),))
    """
    dtype = token_type(tokenizer)
    mark = np.array([tokenizer.end_of_text], dtype=dtype)
    parts, spans, stop = [mark], [], 0
    for index, piece in enumerate(split.pieces):
        parts.append(tokenizer.encode(piece).astype(dtype))
        start, stop = stop, stop + len(parts[-1])
        if not split.lone or index == len(split.pieces) - 1:
            parts.append(mark)
            stop += 1
        spans.append(Span(start, stop))
    return EncodedSplit(
        tokens=np.concatenate(parts),
        training=tuple(span for i, span in enumerate(spans) if i not in split.held),
        held=tuple(span for i, span in enumerate(spans) if i in split.held),
        longest_document=stop if split.lone else max(span.targets for span in spans),
    )
