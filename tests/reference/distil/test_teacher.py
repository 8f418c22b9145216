"""The frozen teacher."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pupil import VOCABULARY, batch, model

from lossleuth.reference.distil.losses import Rows
from lossleuth.reference.distil.teacher import FrozenTeacher
from lossleuth.reference.distil.vocabularies import Match
from lossleuth.reference.train.data import IGNORED
from lossleuth.types.errors import BadInput

SAME = Match("exact", "")


def test_nothing_of_the_teacher_can_be_trained() -> None:
    net = model(dropout=0.5).train()
    teacher = FrozenTeacher(net, SAME)
    one, other = (teacher.answer(batch(), 0, hidden=True, attention=True) for _ in range(2))
    seen = [one.outputs.logits_BTV, *one.outputs.hidden, *one.outputs.attention]
    assert not any(tensor.requires_grad for tensor in seen)
    assert not any(p.requires_grad for p in net.parameters())
    # Dropout is off.
    assert torch.equal(one.outputs.logits_BTV, other.outputs.logits_BTV)


def test_no_gradient_reaches_even_a_teacher_that_was_unfrozen_later() -> None:
    teacher = FrozenTeacher(model(), SAME)
    teacher.module.requires_grad_(True)
    outputs = teacher.answer(batch(), 0, hidden=True, attention=True).outputs
    seen = [outputs.logits_BTV, *outputs.hidden, *outputs.attention]
    assert not any(tensor.requires_grad for tensor in seen)


def test_a_teacher_in_training_mode_is_refused() -> None:
    teacher = FrozenTeacher(model(), SAME)
    teacher.module.train()
    with pytest.raises(RuntimeError, match="put in training mode"):
        teacher.answer(batch(), 0)


def test_a_teacher_that_moved_is_seen() -> None:
    teacher = FrozenTeacher(model(), SAME)
    teacher.check_unchanged()
    with torch.no_grad():
        next(teacher.module.parameters())[0, 0] += 1e-6
    with pytest.raises(RuntimeError, match="the teacher's weights changed"):
        teacher.check_unchanged()


def test_the_shuffled_teacher_answers_other_positions_the_same_way_each_time() -> None:
    plain, shuffled = FrozenTeacher(model(), SAME), FrozenTeacher(model(), SAME, shuffled=0)
    rows = plain.answer(batch(), 0).rows
    answers = [shuffled.answer(batch(), k, hidden=True, attention=True) for k in (0, 0, 1)]
    moved, again, later = (answer.rows.teacher_n for answer in answers)
    assert torch.equal(moved, again) and not torch.equal(moved, later)
    assert not torch.equal(moved, rows.teacher_n)
    assert torch.equal(moved.sort().values, rows.teacher_n)
    states = plain.answer(batch(), 0, hidden=True).outputs.hidden[0].flatten(0, 1)
    assert torch.equal(answers[0].outputs.hidden[0].flatten(0, 1)[rows.student_n], states[moved])


def test_masked_positions_are_not_compared() -> None:
    given = batch(masked=4)
    rows = FrozenTeacher(model(), SAME).answer(given, 0).rows
    assert len(rows.student_n) == int((given.targets_BT != IGNORED).sum())


def test_wider_logits_are_cut_to_the_student_only_if_tokens_have_names() -> None:
    wide = FrozenTeacher(model(), SAME)
    wide.fit_width(VOCABULARY - 3, named=True)
    assert wide.columns is not None and wide.columns.tolist() == list(range(VOCABULARY - 3))
    for named, size in ((False, VOCABULARY - 3), (True, VOCABULARY + 1), (False, VOCABULARY + 1)):
        with pytest.raises(BadInput, match=f"the student's vocabulary of {size} tokens, found 20"):
            FrozenTeacher(model(), SAME).fit_width(size, named=named)


def test_a_mapped_teacher_is_asked_in_its_own_tokens() -> None:
    order = torch.from_numpy(np.random.default_rng(0).permutation(VOCABULARY))
    plain, mapped = FrozenTeacher(model(), SAME), FrozenTeacher(model(), Match("exact", "", order))
    given = batch()
    back = order.argsort()
    theirs = replace(given, inputs_BT=back[given.inputs_BT])
    found = mapped.answer(theirs, 0)
    assert torch.equal(found.outputs.logits_BTV, plain.answer(given, 0).outputs.logits_BTV)
    assert isinstance(found.rows, Rows) and torch.equal(found.rows.columns, order)
