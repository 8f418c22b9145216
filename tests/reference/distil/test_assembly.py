"""Everything put together, or refused with the reason."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hosts import save_host
from pupil import TEXT, model

from lossleuth.reference.distil.assembly import assemble
from lossleuth.reference.distil.loop import DistilStep, distil
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.train.data import make_batch
from lossleuth.types.errors import BadInput


def first_step(settings: DistilSettings) -> DistilStep:
    made = assemble(replace(settings, steps=1))
    data = made.prepared
    (step,) = distil(
        made.student,
        made.optimizer,
        lambda k: make_batch(data.tokens, data.training, made.order.at(k)),
        made.objective,
    )
    assert isinstance(step, DistilStep) and step.applied
    return step


def test_a_new_student_has_the_teachers_tokens(settings: DistilSettings) -> None:
    made = assemble(settings)
    said = "\n".join(made.sentences())
    assert "vocabulary: the same 3" in said
    assert "parameters, frozen" in said and "tied: embedding.weight = output.weight" in said
    assert "curriculum" in said
    assert made.teacher_result.loss < made.untrained.loss and made.teacher_is_worse is None
    assert "warning" not in said


def test_the_same_seed_makes_the_same_student_and_another_one_another(
    settings: DistilSettings,
) -> None:
    one, same, other = (assemble(replace(settings, seed=seed)).student for seed in (0, 0, 1))
    (a,), (b,), (c,) = ([next(m.parameters())] for m in (one, same, other))
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_a_teacher_that_is_no_better_is_warned_of_with_figures(
    settings: DistilSettings, teacher_run: Path
) -> None:
    made = assemble(replace(settings, student=str(teacher_run)))
    assert made.teacher_is_worse is not None
    loss = f"{made.untrained.loss:.4f}"
    assert f"{loss} against {loss} nats/token on the validation set" in made.teacher_is_worse
    assert made.teacher_is_worse in list(made.sentences())


def test_a_teacher_that_has_seen_the_validation_set_is_warned_of(settings: DistilSettings) -> None:
    said = list(assemble(replace(settings, seed=5)).sentences())
    assert any("it has seen some of the validation set" in line for line in said)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"context": 32}, "a context that the teacher can see, at most 16, found 32"),
        ({"teacher": ""}, "a teacher, found none"),
        (
            {"tokenizer": "word", "vocabulary": "exact"},
            "agree token by token, found the teacher la",
        ),
        ({"tokenizer": "word", "hidden_weight": 1.0}, "the same positions in teacher and student"),
    ],
)
def test_what_does_not_fit_is_refused(
    settings: DistilSettings, change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        assemble(replace(settings, **change))


def test_a_students_own_tokenizer_cannot_be_changed(
    settings: DistilSettings, teacher_run: Path
) -> None:
    with pytest.raises(BadInput, match=r"the student's own tokenizer \(char\)"):
        assemble(replace(settings, student=str(teacher_run), tokenizer="word"))


@pytest.mark.parametrize("tokenizer", ["word", "bpe"])
def test_other_tokenizers_are_compared_by_sorted_probabilities_at_the_same_places(
    settings: DistilSettings, tokenizer: str
) -> None:
    size = 280 if tokenizer == "bpe" else None
    settings = replace(settings, tokenizer=tokenizer, vocab_size=size, context=12)
    made = assemble(settings)
    assert made.teacher.match.kind == "sorted"
    assert made.teacher_result.tokens > made.untrained.tokens
    step = first_step(settings)
    # Two distributions differ by 2 at most, and by something.
    assert 0 < step.parts["distil"] < 2


def test_a_module_of_python_teaches_by_its_ids(
    settings: DistilSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = assemble(settings)
    names = type(sys)("made_here")
    names.right = lambda: made.teacher.module  # type: ignore[attr-defined]  # a module made here
    names.wrong = lambda: model(vocabulary=7)  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, "made_here", names)
    with pytest.raises(
        BadInput, match="a way to split text, found no tokenizer of made_here:right"
    ):
        assemble(replace(settings, teacher="made_here:right"))
    assert first_step(replace(settings, teacher="made_here:right", tokenizer="char")).loss > 0
    with pytest.raises(BadInput, match=r"vocabulary of 3\d tokens, found 7 logits"):
        assemble(replace(settings, teacher="made_here:wrong", tokenizer="char"))


def test_a_student_that_is_its_own_teacher_is_refused(
    settings: DistilSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = type(sys)("made_twice")
    only = assemble(settings).teacher.module
    names.only = lambda: only  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, "made_twice", names)
    with pytest.raises(BadInput, match="a student that is not its own teacher"):
        assemble(
            replace(
                settings, teacher="made_twice:only", student="made_twice:only", tokenizer="char"
            )
        )


def test_models_of_hugging_face_teach_and_learn(settings: DistilSettings, tmp_path: Path) -> None:
    path = str(save_host(tmp_path, [TEXT]))
    taught = first_step(replace(settings, teacher=path, hidden_weight=0.1, attention_weight=0.1))
    assert set(taught.parts) == {"distil", "data", "hidden", "attention"}
    # A new student takes their tokenizer; theirs keeps its own, whatever the teacher's.
    assert first_step(replace(settings, student=path)).parts["distil"] > 0
