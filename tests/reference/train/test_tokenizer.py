"""Text to ids and back."""

from __future__ import annotations

import builtins
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossleuth.reference.train.corpus import read_corpus
from lossleuth.reference.train.tokenizer import (
    SPECIALS,
    WORDS,
    Tokenizer,
    build_tokenizer,
    load_tokenizer,
)
from lossleuth.types.errors import BadInput

KINDS = ("char", "word", "bpe")
texts = st.text(max_size=60)
documents = st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=4)


def everything(kind: str, texts: list[str]) -> Tokenizer:
    """A tokenizer that knows every piece of the texts."""
    if kind == "bpe":
        return build_tokenizer("bpe", texts, 257)
    pieces = {
        piece for text in texts for piece in (text if kind == "char" else WORDS.findall(text))
    }
    return build_tokenizer(kind, texts, len(pieces) + len(SPECIALS))


@pytest.mark.parametrize("kind", KINDS)
@given(documents)
@settings(max_examples=40, deadline=None)
def test_text_comes_back_exactly(kind: str, texts: list[str]) -> None:
    tokenizer = everything(kind, texts)
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids.tolist()) == text
        assert tokenizer.unknown_share(ids) == 0
        assert tokenizer.end_of_text not in ids


@given(texts)
def test_words_are_a_partition_of_any_text(text: str) -> None:
    assert "".join(WORDS.findall(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@given(documents)
@settings(max_examples=20, deadline=None)
def test_a_saved_tokenizer_is_the_same(kind: str, texts: list[str]) -> None:
    tokenizer = everything(kind, texts)
    again = load_tokenizer(json.loads(json.dumps(tokenizer.to_json())))
    assert again.size == tokenizer.size
    assert again.encode(texts[0]).tolist() == tokenizer.encode(texts[0]).tolist()


@pytest.mark.parametrize("kind", KINDS)
@given(documents)
@settings(max_examples=20, deadline=None)
def test_bytes_per_token_add_up_to_the_bytes_of_the_text(kind: str, texts: list[str]) -> None:
    tokenizer = everything(kind, texts)
    counted = tokenizer.bytes_per_token[tokenizer.encode(texts[0])].sum()
    assert counted == len(texts[0].encode())
    assert len(tokenizer.bytes_per_token) == tokenizer.size


@pytest.mark.parametrize("kind", KINDS)
def test_ids_do_not_depend_on_the_order_of_documents_even_on_ties(kind: str) -> None:
    texts = list(read_corpus([]).documents[:12])
    size = {"char": 40, "word": 300, "bpe": 400}[kind]
    one = build_tokenizer(kind, texts, size)
    other = build_tokenizer(kind, texts[::-1], size)
    assert one.to_json() == other.to_json()


@pytest.mark.parametrize("kind", ["char", "word"])
def test_what_the_vocabulary_lacks_is_emitted_as_unknown_and_counted(kind: str) -> None:
    tokenizer = build_tokenizer(kind, ["a a a a b"], 3)
    ids = tokenizer.encode("z a a")
    assert tokenizer.unknown in ids
    assert 0 < tokenizer.unknown_share(ids) < 1


def test_characters_beyond_the_highest_known_are_unknown() -> None:
    tokenizer = build_tokenizer("char", ["ab"], None)
    assert tokenizer.encode("b\U0010ffffc").tolist() == [3, 1, 1]


def test_words_seen_once_train_the_unknown_token() -> None:
    tokenizer = build_tokenizer("word", ["rare word word"], None)
    assert tokenizer.encode("rare word").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "size", "span"),
    [
        ("char", 0, "3 to 5"),
        ("char", 6, "3 to 5"),
        ("word", 2, "3 to"),
        ("word", 999, "3 to"),
        ("bpe", 256, "257 or more"),
        ("bpe", 5000, "257 to 25"),
        ("bpe", 10**18, "257 to 25"),
        ("bpe", 10**23, "257 to 25"),
    ],
)
def test_a_size_that_the_data_cannot_give_is_refused_with_the_span(
    kind: str, size: int, span: str
) -> None:
    with pytest.raises(BadInput, match=rf"vocabulary of {span}"):
        build_tokenizer(kind, ["a b a"], size)


def test_without_the_extra_bpe_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "tokenizers":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match=r"pip install 'lossleuth\[bpe\]'"):
        build_tokenizer("bpe", ["a"], None)


def test_ids_are_unsigned_and_in_range() -> None:
    tokenizer = build_tokenizer("char", ["abc"], None)
    ids = tokenizer.encode("abcz")
    assert ids.dtype == np.uint32
    assert ids.max() < tokenizer.size


@pytest.mark.parametrize(
    ("saved", "found"),
    [
        ({}, "the kind None"),
        ({"kind": "runes", "pieces": ["a"]}, "the kind 'runes'"),
        ({"kind": "char"}, "the kind 'char' with pieces None"),
        ({"kind": "char", "pieces": "ab"}, "the kind 'char' with pieces 'ab'"),
        ({"kind": "char", "pieces": ["a", "bc"]}, "2 characters in the char piece 'bc'"),
        ({"kind": "char", "pieces": ["a", "a"]}, "twice"),
        ({"kind": "char", "pieces": ["\ud800"]}, "the char piece"),
        ({"kind": "word", "pieces": [1, 2]}, "the word piece 1"),
        ({"kind": "word", "pieces": [""]}, "the word piece ''"),
        ({"kind": "bpe"}, "a BPE definition that is none"),
        ({"kind": "bpe", "definition": 3}, "the BPE definition 3"),
        ({"kind": "bpe", "definition": "{}"}, "a BPE definition that is none"),
    ],
)
def test_a_damaged_definition_is_refused(saved: dict[str, Any], found: str) -> None:
    with pytest.raises(BadInput, match=found):
        load_tokenizer(saved)


def test_a_bpe_without_the_mark_as_token_0_is_refused() -> None:
    saved = build_tokenizer("bpe", ["a"], 257).to_json()
    saved["definition"] = saved["definition"].replace("<|endoftext|>", "<|another|>")
    with pytest.raises(BadInput, match="a BPE vocabulary without"):
        load_tokenizer(saved)


def test_byte_level_pieces_and_spans_tell_what_each_token_covers() -> None:
    tokenizer = build_tokenizer("bpe", ["ab ab ab"], 258)
    assert len(tokenizer.pieces) == tokenizer.size == 258
    assert tokenizer.pieces[0] == "<|endoftext|>" and tokenizer.pieces[-1] == "ab"
    assert tokenizer.spans("ab\u00e9") == [(0, 2), (2, 3), (2, 3)]
