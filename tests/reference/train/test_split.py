"""Text to train on and text to hold back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossleuth.reference.train.corpus import read_corpus
from lossleuth.reference.train.data import Span
from lossleuth.reference.train.split import encode_split, hold_back
from lossleuth.reference.train.tokenizer import build_tokenizer

texts = st.lists(st.text("abc ", min_size=1, max_size=30), min_size=2, max_size=6)


@given(texts, st.floats(0.01, 0.5), st.integers(0, 5))
def test_documents_stay_whole_and_both_sides_are_filled(
    documents: list[str], share: float, seed: int
) -> None:
    split = hold_back(documents, share, seed)
    assert list(split.pieces) == documents
    assert 0 < len(split.held) < len(documents)
    assert len(split.training) == len(documents) - len(split.held)
    assert hold_back(documents, share, seed) == split


@given(st.text(min_size=1, max_size=200), st.floats(0.01, 0.5))
def test_a_lone_document_gives_its_end(document: str, share: float) -> None:
    split = hold_back([document], share, seed=0)
    (training,) = split.training
    assert "".join(split.pieces) == document
    assert document.startswith(training)
    assert training


def test_the_share_is_of_characters_and_does_not_depend_on_a_tokenizer() -> None:
    split = hold_back(["x" * 999], 0.2, seed=3)
    assert split.training == ("x" * 800,)
    encoded = encode_split(split, build_tokenizer("char", split.training, None))
    assert (encoded.training, encoded.held) == ((Span(0, 800),), (Span(800, 1000),))


@pytest.mark.parametrize("kind", ["char", "word", "bpe"])
@given(documents=texts)
@settings(max_examples=40, deadline=None)
def test_spans_cover_every_target_once_in_documents_between_marks(
    kind: str, documents: list[str]
) -> None:
    for some in (documents, documents[:1]):
        split = hold_back(some, 0.3, seed=1)
        size = 257 if kind == "bpe" else None
        tokenizer = build_tokenizer(kind, split.training, size)
        encoded = encode_split(split, tokenizer)
        spans = sorted(encoded.training + encoded.held, key=lambda span: span.start)
        assert spans[0].start == 0
        assert [span.stop for span in spans[:-1]] == [span.start for span in spans[1:]]
        assert spans[-1].stop == len(encoded.tokens) - 1
        marks = (encoded.tokens == tokenizer.end_of_text).nonzero()[0].tolist()
        stops = [span.stop for span in spans]
        assert marks == [0, *(stops[-1:] if split.lone else stops)]
        assert encoded.longest_document == max(b - a for a, b in pairwise(marks))


@pytest.mark.parametrize("kind", ["word", "bpe"])
@given(document=st.text("ab, \n", min_size=1, max_size=60), share=st.floats(0.01, 0.5))
@settings(max_examples=60, deadline=None)
def test_a_lone_document_cut_between_words_has_the_tokens_of_the_whole(
    kind: str, document: str, share: float
) -> None:
    split = hold_back([document], share, seed=0, whole_words=True)
    (training,) = split.training
    assert "".join(split.pieces) == document
    if not split.pieces[1][:1].isspace() or training[-1:].isspace():
        return  # There is no end of a word to cut at.
    tokenizer = build_tokenizer(kind, [document * 2], 257 if kind == "bpe" else None)
    tokens = encode_split(split, tokenizer).tokens
    assert tokens[1:-1].tolist() == tokenizer.encode(document).tolist()


def test_about_the_share_that_was_asked_for_is_held_back() -> None:
    documents = read_corpus([]).documents
    split = hold_back(documents, 0.1, seed=0)
    held = sum(len(documents[i]) for i in split.held) / sum(map(len, documents))
    assert held == pytest.approx(0.1, abs=0.005)
