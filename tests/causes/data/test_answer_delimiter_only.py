"""Losses that ask for one token and no other."""

from __future__ import annotations

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.data.answer_delimiter_only import judge
from lossleuth.findings.data import Alignment


def asked(
    targets: int, tokens: int = 40, supervised: int = 8, only: int | None = None
) -> Alignment:
    return Alignment(
        None,
        {},
        supervised,
        200,
        distinct_tokens=tokens,
        distinct_targets=targets,
        only_target=only,
    )


def test_one_target_on_every_recorded_step_is_proven() -> None:
    check_proven(judge(seen(asked(1, only=3))), LOSS, "All 24 targets", "(3)", "40 different")


def test_a_ranking_loss_or_one_word_for_each_step_is_not_blamed() -> None:
    check_refuted(judge(seen(asked(1))), "no token")
    words = alternating([asked(1, only=3)], [asked(1, only=7)])
    check_refuted(judge(words), "another one on each of 2")


@pytest.mark.parametrize("other", [asked(2), asked(30)])
def test_other_targets_on_any_step_rule_it_out(other: Alignment) -> None:
    found = judge(alternating([asked(1, only=3)], [other], [asked(1, only=3)]))
    check_refuted(found, f"{other.distinct_targets} different")


def test_a_text_of_hardly_any_tokens_has_nothing_else_to_ask_for() -> None:
    check_refuted(judge(seen(asked(1, tokens=2, only=1))), "up to 1")


@pytest.mark.parametrize("found", [asked(1, supervised=1), asked(1, supervised=4)])
def test_few_targets_show_nothing(found: Alignment) -> None:
    check_untested(judge(alternating([found], [found])), "targets were recorded")
