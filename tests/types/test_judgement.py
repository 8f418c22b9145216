"""What a judge says."""

from __future__ import annotations

from lossleuth.types.judgement import Stage, Status, refuted, untested


def test_what_is_not_so_and_what_is_not_known_are_two_things() -> None:
    assert refuted("0 of 3").status is Status.REFUTED
    assert untested("no teacher").status is Status.UNTESTED


def test_data_comes_before_everything_and_evaluation_last() -> None:
    assert next(iter(Stage)) is Stage.DATA
    assert list(Stage)[-1] is Stage.EVALUATION
