"""Losses that ask for one token and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.data.answer_delimiter_only import judge
from lossleuth.findings.data import Alignment
from lossleuth.findings.loss import TrueLoss

WORDS = TrueLoss(0.1, 8, 96, logits_std=2.0)


def asked(targets: int, tokens: int = 40, supervised: int = 8) -> Alignment:
    return Alignment(None, {}, supervised, 200, distinct_tokens=tokens, distinct_targets=targets)


def test_one_target_on_every_recorded_step_is_proven() -> None:
    check_proven(judge(seen(asked(1), WORDS)), LOSS, "All 24 targets", "40 different")


def test_a_classifier_whose_batches_are_sorted_is_not_blamed() -> None:
    labels = replace(WORDS, vocabulary=2)
    check_refuted(judge(seen(asked(1), labels)), "2 classes")
    check_refuted(judge(seen(asked(1))), "0 classes")


@pytest.mark.parametrize("other", [asked(2), asked(30)])
def test_other_targets_on_any_step_rule_it_out(other: Alignment) -> None:
    found = judge(alternating([asked(1)], [other], [asked(1)]))
    check_refuted(found, f"{other.distinct_targets} different")


def test_a_text_of_hardly_any_tokens_has_nothing_else_to_ask_for() -> None:
    check_refuted(judge(seen(asked(1, tokens=2))), "up to 1")


@pytest.mark.parametrize("found", [asked(1, supervised=1), asked(1, supervised=4)])
def test_few_targets_show_nothing(found: Alignment) -> None:
    check_untested(judge(alternating([found], [found])), "targets were recorded")
