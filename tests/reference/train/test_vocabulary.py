"""The analysis of a text."""

from __future__ import annotations

import math

from lossleuth.reference.train.corpus import Corpus, read_corpus
from lossleuth.reference.train.vocabulary import VocabularyRow, analyze_vocabulary


def rows(corpus: Corpus) -> list[VocabularyRow]:
    return [row for row in analyze_vocabulary(corpus) if isinstance(row, VocabularyRow)]


def test_more_vocabulary_means_fewer_unknown_words_and_fewer_bpe_tokens() -> None:
    found = rows(read_corpus([]))
    words = sorted((r.size, r.unknown_share) for r in found if r.tokenizer == "word")
    pieces = sorted((r.size, r.tokens) for r in found if r.tokenizer == "bpe")
    assert len(words) >= 4
    assert [share for _, share in words] == sorted((share for _, share in words), reverse=True)
    assert len(pieces) >= 3
    assert [tokens for _, tokens in pieces] == sorted((t for _, t in pieces), reverse=True)


def test_floors_fall_from_uniform_to_bigram() -> None:
    for row in rows(read_corpus([])):
        assert row.floors.uniform == math.log(row.size)
        assert row.floors.uniform > row.floors.unigram > row.floors.bigram > 0


def test_characters_are_counted_with_the_closing_mark() -> None:
    (row, *_) = rows(Corpus(("abc", "de"), "example"))
    assert (row.tokenizer, row.tokens, row.size) == ("char", 7, 7)
