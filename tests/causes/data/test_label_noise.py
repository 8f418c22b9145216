"""Targets without any relation to the inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import LOSS, check_proven, check_refuted, check_untested, seen, steps

from lossleuth.causes.data.label_noise import judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where


def found(share: float = 0.1, loss: float = 3.0, long: int = 40, **given: Any) -> Evidence:
    shares = {"0": 0.05, "1": share, "2": 0.05}
    alignment = {"offset": None, "shares": shares, "supervised": 512, "distinct_tokens": 60}
    alignment |= {"untested": None, **given.pop("alignment", {})}
    standing = {"targets": {"0": 0.3, "1": -0.4}, "inputs": 20.0, "count": 400, "untested": None}
    standing |= given.pop("relation", {})
    recorded = {
        "alignment": alignment,
        "relation": standing,
        "true_loss": {"loss": loss, "vocabulary": 96},
    }
    return seen(steps=steps(long, unigram=3.0), **recorded, **given)


def test_targets_that_no_offset_explains_are_noise_where_the_loss_parks() -> None:
    check_proven(judge(found()), LOSS, "10%", "3.000")


def test_the_file_of_the_targets_is_named() -> None:
    judgement = judge(found(origins={"targets": {"file": "labels.bin"}}))
    check_proven(judgement, Where("labels.bin"))


@pytest.mark.parametrize("share", [0.36, 1.0])
def test_targets_that_are_the_next_token_are_no_noise(share: float) -> None:
    check_refuted(judge(found(share)), f"{share:.0%}")


def test_a_translation_that_has_begun_to_learn_is_no_noise() -> None:
    check_refuted(judge(found(loss=2.5)), "2.500", "3.000")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "two steps"),
        (found(count=1), "two steps"),
        (found(long=10), "too short"),
        (found(alignment={"supervised": 8}), "two steps"),
        (found(alignment={"untested": "no rows"}), "two steps"),
        (found(alignment={"distinct_tokens": 1}), "only 1 different tokens"),
    ],
)
def test_too_little_to_tell_is_said(evidence: Evidence, words: str) -> None:
    check_untested(judge(evidence), words)


def test_one_step_that_an_offset_explains_or_one_low_loss_is_enough() -> None:
    steady = found()
    explained = replace(steady, windows=[*steady.windows, *found(0.5).windows])
    check_refuted(judge(explained), "50%")
    learnt = replace(steady, windows=[*found(loss=2.4).windows, *steady.windows])
    check_refuted(judge(learnt), "2.400")


def test_targets_that_depend_on_the_tokens_around_are_no_noise() -> None:
    # A masked language model that has not begun to learn: nothing is copied, and yet.
    check_refuted(
        judge(found(relation={"targets": {"0": 0.1, "-1": 6.0}})),
        "standard deviations",
        "0 is expected",
    )


@pytest.mark.parametrize(
    "relation",
    [
        {"targets": {"1": 2.5}},
        # A text in which no token tells the next could not have shown anything.
        {"inputs": 1.0},
    ],
)
def test_a_table_that_could_not_have_refuted_it_proves_nothing(relation: dict[str, Any]) -> None:
    check_untested(judge(found(relation=relation)), "too few pairs")


def test_a_table_that_hardly_stands_out_is_noise_where_the_text_stands_out_by_far() -> None:
    # Over three recorded steps: 3.5 standard deviations, and 20 or 87.
    relation = {"targets": {"0": 2.02, "1": -0.4}, "inputs": 11.5}
    check_untested(judge(found(relation=relation)), "too few pairs")
    assert judge(found(relation=relation | {"inputs": 50.0})).status is Status.PROVEN
    related = {"targets": {"0": 2.5}, "inputs": 50.0}
    check_untested(judge(found(relation=related)), "too few pairs")


def test_without_a_table_nothing_is_said() -> None:
    check_untested(judge(found(relation={"untested": "no rows"})), "no table")


def test_a_different_offset_on_each_step_is_chance() -> None:
    # Of six numbers drawn on each step the largest is above 1 most of the time.
    windows = []
    for i in range(6):
        window = found(relation={"targets": {str(o): 2.5 if o == i else -0.5 for o in range(6)}})
        windows += window.windows[:1]
    check_proven(judge(replace(found(), windows=windows)), LOSS)
