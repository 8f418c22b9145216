"""Targets without any relation to the inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import LOSS, check_proven, check_refuted, check_untested, seen, steps

from lossleuth.causes.data.label_noise import CAUSE, judge
from lossleuth.findings.data import Alignment, TargetRelation
from lossleuth.findings.loss import TrueLoss
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import FoundIn, Origins

RELATION = TargetRelation(targets={0: 0.3, 1: -0.4}, inputs=20.0)


def found(
    share: float = 0.1,
    loss: float = 3.0,
    long: int = 40,
    relation: TargetRelation = RELATION,
    alignment: Any = None,
    **given: Any,
) -> Evidence:
    shares = {0: 0.05, 1: share, 2: 0.05}
    aligned = Alignment(None, shares, supervised=512, targets=512, distinct_tokens=60)
    true = TrueLoss(loss, 512, 96, logits_std=1.0)
    findings = (replace(aligned, **(alignment or {})), relation, true)
    return seen(*findings, steps=steps(long, unigram=3.0), **given)


def test_targets_that_no_offset_explains_are_noise_where_the_loss_parks() -> None:
    check_proven(judge(found()), LOSS, "10%", "3.000")


def test_the_file_of_the_targets_is_named() -> None:
    judgement = judge(found(origins=Origins(targets=FoundIn("labels.bin"))))
    check_proven(judgement, Where("labels.bin"))


@pytest.mark.parametrize("share", [0.36, 1.0])
def test_targets_that_are_the_next_token_are_no_noise(share: float) -> None:
    check_refuted(judge(found(share)), f"{share:.0%}")


def test_a_translation_that_has_begun_to_learn_is_no_noise() -> None:
    check_refuted(judge(found(loss=2.5)), "2.500", "3.000")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (found(count=1), "two steps"),
        (found(long=10), "too short"),
        (found(alignment={"supervised": 8}), "two steps"),
        (found(alignment={"untested": "no rows"}), "no rows"),
        (found(alignment={"tokens": 512 * 11}), "512 targets for 5632 tokens"),
        (found(alignment={"distinct_tokens": 1}), "only 1 different tokens"),
    ],
)
def test_too_little_to_decide_by_is_said(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_one_step_that_an_offset_explains_or_one_low_loss_is_enough() -> None:
    steady = found()
    explained = replace(steady, recorded=[*steady.recorded, *found(0.5).recorded])
    check_refuted(judge(explained), "50%")
    learnt = replace(steady, recorded=[*found(loss=2.4).recorded, *steady.recorded])
    check_refuted(judge(learnt), "2.400")


def test_targets_that_depend_on_the_tokens_around_are_no_noise() -> None:
    # A masked language model that has not begun to learn: nothing is copied, and yet.
    check_refuted(
        judge(found(relation=replace(RELATION, targets={0: 0.1, -1: 6.0}))),
        "standard deviations",
        "0 is expected",
    )


@pytest.mark.parametrize(
    "relation",
    [
        replace(RELATION, targets={1: 2.5}),
        # A text in which no token depends on the one before could not have shown anything.
        replace(RELATION, inputs=1.0),
    ],
)
def test_a_table_that_could_not_have_refuted_it_proves_nothing(relation: TargetRelation) -> None:
    check_untested(judge(found(relation=relation)), "too few pairs")


def test_a_table_that_hardly_stands_out_is_noise_where_the_text_stands_out_by_far() -> None:
    # Over three recorded steps: 3.5 standard deviations, and 20 or 87.
    relation = replace(RELATION, targets={0: 2.02, 1: -0.4}, inputs=11.5)
    check_untested(judge(found(relation=relation)), "too few pairs")
    assert judge(found(relation=replace(relation, inputs=50.0))).status is Status.PROVEN
    related = replace(RELATION, targets={0: 2.5}, inputs=50.0)
    check_untested(judge(found(relation=related)), "too few pairs")


def test_without_a_table_nothing_is_said() -> None:
    check_untested(judge(found(relation=replace(RELATION, untested="no rows"))), "no table")


def test_a_different_offset_on_each_step_is_chance() -> None:
    # Of six numbers drawn on each step the largest is above 1 most of the time.
    recorded = []
    for i in range(6):
        chance = {offset: 2.5 if offset == i else -0.5 for offset in range(6)}
        recorded += found(relation=replace(RELATION, targets=chance)).recorded[:1]
    check_proven(judge(replace(found(), recorded=recorded)), LOSS)
