"""Outputs that do not depend on the input."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen, steps

from lossleuth.causes.model.input_ignored import judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where


def moved(own: float | None, spread: float | None = 1.0, **given: Any) -> dict[str, Any]:
    leaks = {"own": own, "order": 0.0, "floor": 1e-12, **given}
    return {"leaks": leaks, "true_loss": {"loss": 3.0, "logits_std": spread, "vocabulary": 96}}


def looked_up(tokens: int, targets: int) -> dict[str, Any]:
    return {"alignment": {"distinct_tokens": tokens, "distinct_targets": targets}}


def test_logits_that_no_token_moves_are_proven() -> None:
    fault = seen(steps=steps(4, unigram=3.01), **moved(0.0))
    check_proven(judge(fault), LOSS, "0.0e+00", "all of 3", "3.000", "3.010")


def test_the_place_where_the_input_is_lost_is_named() -> None:
    fault = seen(steps=steps(4), **moved(0.0, lost_places=["model.py:12"]))
    check_proven(judge(fault), Where("model.py", 12))


def test_the_entropy_of_single_tokens_is_told_only_where_it_is_known() -> None:
    judgement = judge(alternating(moved(0.0), moved(1e-13)))
    check_proven(judgement, None, "1.0e-13")
    assert "entropy" not in judgement.because


def test_one_token_for_all_targets_is_proven_whatever_it_moves() -> None:
    check_proven(judge(seen(**moved(2.0), **looked_up(1, 60))), LOSS, "60 different")


@pytest.mark.parametrize(
    "found",
    [
        moved(1.7),
        moved(0.0, order=0.3),
        moved(1.7) | looked_up(1, 3),
        moved(1.7) | looked_up(50, 60),
    ],
    ids=["own token", "earlier tokens", "a text of one token", "a text"],
)
def test_logits_that_follow_the_tokens_are_sound(found: Any) -> None:
    check_refuted(judge(seen(**found)), "expected above 0")


def test_an_input_that_matters_on_some_steps_is_not_ignored() -> None:
    check_refuted(judge(alternating(moved(0.0), moved(1.7))), "1.7")


@pytest.mark.parametrize("spread", [0.0, None], ids=["a dead network", "unknown"])
def test_logits_that_are_all_equal_tell_nothing_of_the_input(spread: float | None) -> None:
    check_untested(judge(seen(**moved(0.0, spread))), "from class to class")


def test_without_logits_it_is_untested_with_the_reason() -> None:
    check_untested(judge(Evidence()), "no step with tokens")
    check_untested(judge(seen(**moved(None, untested="no rows"))), "no rows")
