"""Vocabularies side by side."""

from __future__ import annotations

import pytest

from lossleuth.reference.distil.vocabularies import match_vocabularies, token_texts
from lossleuth.reference.train.tokenizer import CharTokenizer, WordTokenizer, build_tokenizer
from lossleuth.types.errors import BadInput

TEXTS = ["abcabc cab", "bca"]


def test_equal_vocabularies_need_no_map() -> None:
    match = match_vocabularies(CharTokenizer("abc "), CharTokenizer("abc "), TEXTS)
    assert match.kind == "exact" and match.ids is None
    assert match.sentence == "vocabulary: the same 6 tokens"


def test_tokens_are_found_by_their_text_wherever_they_are() -> None:
    student, teacher = CharTokenizer("abc "), CharTokenizer(" zcba")
    match = match_vocabularies(student, teacher, TEXTS)
    assert match.kind == "exact" and match.ids is not None
    theirs = token_texts(teacher)
    assert [theirs[i] for i in match.ids.tolist()] == token_texts(student)


def test_what_only_the_student_does_not_know_is_no_other_tokenizer() -> None:
    assert match_vocabularies(CharTokenizer("ab "), CharTokenizer("abc "), TEXTS).kind == "exact"


def test_equal_names_are_not_enough_where_text_is_split_otherwise() -> None:
    student, teacher = (
        build_tokenizer("bpe", ["ab ab ab"], 258),
        build_tokenizer("bpe", ["b b"], 257),
    )
    lacking = match_vocabularies(teacher, student, ["ab ab"])
    assert (
        lacking.kind == "sorted" and "the same text is split into other tokens" in lacking.sentence
    )


@pytest.mark.parametrize("wanted", ["auto", "exact"])
def test_a_teacher_that_lacks_tokens_is_compared_by_rank_or_refused(wanted: str) -> None:
    student, teacher = CharTokenizer("abc "), WordTokenizer(["ab"])
    if wanted == "exact":
        with pytest.raises(BadInput, match="the teacher lacks 4 of 6 tokens, 'a' first"):
            match_vocabularies(student, teacher, TEXTS, wanted)
    else:
        assert match_vocabularies(student, teacher, TEXTS, wanted).kind == "sorted"


def test_a_teacher_without_names_is_taken_by_its_ids_and_that_is_said() -> None:
    match = match_vocabularies(CharTokenizer("ab"), None, TEXTS)
    assert match.kind == "exact" and "its ids are taken as ours" in match.sentence
    with pytest.raises(BadInput, match="the teacher's tokenizer"):
        match_vocabularies(CharTokenizer("ab"), None, TEXTS, "sorted")
