"""Texts, teacher and student of the fifth case are sound."""

from __future__ import annotations

import torch

from lossleuth.labs.cases.distillation import IGNORED, SINGLE, Student, Teacher, batches, make_texts
from lossleuth.labs.cases.text import Language


def test_two_texts_of_one_word_meet_in_one_batch() -> None:
    found = batches(make_texts(Language.made(50, 8), seed=1))
    bare = [i for i, b in enumerate(found) if bool((b.labels_BT == IGNORED).all())]
    assert bare == [SINGLE[0] // 2]


def test_labels_are_the_next_words_and_padding_has_none() -> None:
    batch = batches([torch.tensor([4, 5, 6]), torch.tensor([7])])[0]
    assert batch.tokens_BT.tolist() == [[4, 5, 6], [7, 0, 0]]
    assert batch.labels_BT.tolist() == [[5, 6, IGNORED], [IGNORED] * 3]
    assert batch.real_BT.tolist() == [[True] * 3, [True, False, False]]


def test_without_single_words_all_batches_have_equally_many_labels() -> None:
    found = batches(make_texts(Language.made(50, 8), seed=1), at_least=2)
    assert len({int((b.labels_BT != IGNORED).sum()) for b in found}) == 1


def test_the_teacher_knows_the_language() -> None:
    language = Language.made(50, 8)
    tokens = torch.tensor([[3, 4]])
    wanted = language.meaning_VC[tokens] @ language.calls_VC.T
    torch.testing.assert_close(Teacher(language)(tokens), wanted)


def test_the_student_sees_no_later_word() -> None:
    student = Student(50)
    tokens = torch.arange(12).view(2, 6)
    changed = tokens.clone()
    changed[:, 4] = 49
    moved = (student(changed) - student(tokens)).detach().abs()
    assert float(moved[:, :4].max()) < 1e-6 < float(moved[:, 4].max())
