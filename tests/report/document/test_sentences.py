"""Sentences of a verdict, which every form of the report shares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import record, verdict

from lossleuth.judge.verdict import Verdict
from lossleuth.report.document.document import document_of
from lossleuth.report.document.load_facts import facts_of
from lossleuth.report.document.sentences import (
    EVALUATION_CAUSES,
    answer_sentence,
    present,
    remedy_sentence,
    run_length,
)
from lossleuth.report.render import html, markdown, terminal
from lossleuth.types.judgement import Judgement, Status, Where

WRONG_METRIC = Judgement(Status.PROVEN, "2.5 is printed, 2.1 is true", Where("train.py", 2))


def test_a_cause_is_named_with_its_summary_and_place() -> None:
    expected = "The cause is label_offset: targets are not the next token, at train.py:1."
    assert answer_sentence(verdict()) == expected


def test_healthy_and_cannot_tell_have_the_numbers_of_the_run() -> None:
    assert answer_sentence(verdict("healthy")) == (
        "No fault found: the run is learning (the loss goes from 3.000 to 2.500)."
    )
    assert answer_sentence(verdict("cannot_tell")) == (
        "No cause found, but the loss goes from 3.000 to 2.500."
    )
    without_notes = replace(verdict("healthy"), notes=())
    assert answer_sentence(without_notes) == "No fault found: the run is learning."


def test_a_wrong_metric_is_no_fault_of_training() -> None:
    found = Verdict("proven", {"mean_of_means": WRONG_METRIC}, ["mean_of_means"], 60, 1.0)
    sentence = answer_sentence(found)
    assert sentence.startswith(
        "No fault found in training, but a reported number is wrong (mean_of_means: "
    )
    assert sentence.endswith("), at train.py:2.")


def test_training_is_not_cleared_while_a_fault_of_it_is_suspected() -> None:
    suspected = Judgement(Status.SUSPECTED, "the loss rises")
    judgements = {"lr_too_high": suspected, "mean_of_means": WRONG_METRIC}
    found = Verdict("proven", judgements, ["mean_of_means", "lr_too_high"], 60, 1.0)
    assert answer_sentence(found).startswith("A reported number is wrong (mean_of_means: ")


def test_an_unknown_cause_is_named_without_a_summary() -> None:
    found = Verdict("proven", {"of_tomorrow": WRONG_METRIC}, ["of_tomorrow"], 60, 1.0)
    assert answer_sentence(found) == "The cause is of_tomorrow, at train.py:2."


def test_a_wrong_metric_is_of_evaluation_and_a_wrong_gradient_is_not() -> None:
    assert "metric_offset" in EVALUATION_CAUSES
    assert "wrong_backward" not in EVALUATION_CAUSES


def test_harmless_faults_are_not_present() -> None:
    assert present(verdict()) == ["label_offset", "lr_too_high"]


def test_what_is_missing_is_left_out() -> None:
    assert remedy_sentence(Judgement(Status.PROVEN, "1 is not 2")) == ""
    assert run_length(replace(verdict(), steps=1, seconds=0.0)) == "1 step observed"
    assert run_length(verdict()) == "8 steps observed in 2 s"


@pytest.mark.parametrize("status", ["proven", "healthy", "cannot_tell"])
def test_every_form_has_the_same_answer(tmp_path: Path, status: str) -> None:
    record(tmp_path, [3.0, 2.0])
    found = verdict(status)
    document = document_of(facts_of(tmp_path, found))
    forms = (html.rendered(document), markdown.rendered(document), "\n".join(terminal.lines(found)))
    for form in forms:
        words = " ".join(form.replace("\\", "").split())
        assert answer_sentence(found) in words
