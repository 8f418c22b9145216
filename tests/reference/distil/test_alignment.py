"""The same places in two tokenizations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lossleuth.reference.distil.alignment import (
    INSIDE,
    Alignment,
    check_ends,
    stream_ends,
    text_ends,
)
from lossleuth.reference.train.data import make_batch, make_windows
from lossleuth.reference.train.split import encode_split, hold_back
from lossleuth.reference.train.tokenizer import (
    CharTokenizer,
    Tokenizer,
    WordTokenizer,
    build_tokenizer,
)
from lossleuth.types.errors import BadInput

DOCUMENTS = ["the cat sat on the mat, and the cat ate", "the mat is flat", "a cat on a flat mat"]


def tokenizers() -> list[Tokenizer]:
    return [
        CharTokenizer("".join(sorted(set("".join(DOCUMENTS))))),
        WordTokenizer(["the", " cat", " mat", " on"]),
        build_tokenizer("bpe", DOCUMENTS, 265),
    ]


@pytest.mark.parametrize("tokenizer", tokenizers(), ids=lambda t: t.kind)
@pytest.mark.parametrize("documents", [DOCUMENTS, DOCUMENTS[:1]])
def test_every_token_ends_where_the_text_before_it_says(
    tokenizer: Tokenizer, documents: list[str]
) -> None:
    split = hold_back(documents, 0.3, 0)
    tokens = encode_split(split, tokenizer).tokens
    ends = stream_ends(tokenizer, split.pieces, lone=split.lone)
    check_ends(ends, tokens, "student")
    text = "#" + "".join(p if split.lone else p + "#" for p in split.pieces) + "#" * split.lone
    assert ends[-1] == len(text)
    if tokenizer.kind != "word":
        marks = {tokenizer.end_of_text: "#"}
        before = 0
        for token, end in zip(tokens.tolist(), ends.tolist(), strict=True):
            assert marks.get(token, tokenizer.decode([token])) == text[before:end]
            before = end


def test_a_token_that_ends_inside_a_character_is_the_same_place_as_none() -> None:
    tokenizer = build_tokenizer("bpe", ["abc"], 257)
    assert text_ends(tokenizer, "aéb").tolist() == [1, INSIDE, 2, 3]


def test_paired_positions_have_the_same_text_before_them() -> None:
    ours, theirs = tokenizers()[0], tokenizers()[2]
    split = hold_back(DOCUMENTS, 0.3, 0)
    mine, other = encode_split(split, ours), encode_split(split, theirs)
    ends = [stream_ends(t, split.pieces, lone=split.lone) for t in (ours, theirs)]
    alignment = Alignment(ends[0], other.tokens, ends[1], context=12)
    windows = make_windows(mine.training, 8, 8)
    batch = make_batch(mine.tokens, windows, np.arange(len(windows)))
    aligned = alignment.batch(batch, windows)
    assert len(aligned.student_n) > len(windows)
    for s, t in zip(aligned.student_n.tolist(), aligned.teacher_n.tolist(), strict=True):
        row, position = divmod(s, 8)
        assert t // 12 == row
        start = int(windows.starts[row])
        said = ours.decode(mine.tokens[start : start + position + 1].tolist())
        heard = theirs.decode(aligned.inputs_BU[row, : t % 12 + 1].tolist())
        assert said.endswith(heard) or heard.endswith(said)
        assert position < windows.lengths[row]
    assert torch.equal(aligned.student_n.unique(), aligned.student_n.sort().values)


def test_a_tokenizer_that_does_not_say_where_tokens_end_is_refused() -> None:
    with pytest.raises(BadInput, match="each of the teacher's 3 tokens ends in the text, found 2"):
        check_ends(np.arange(2), np.zeros(3, dtype="<u2"), "teacher")
