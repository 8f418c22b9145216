"""The command line of the founding programs."""

from __future__ import annotations

import pytest

from lossleuth.labs.cases.arguments import read_arguments


def test_without_words_nothing_is_repaired() -> None:
    found = read_arguments("A program.", ["mask", "norm"], steps=7, words=[])
    assert (found.steps, found.seed, found.repaired) == (7, 0, frozenset())


def test_repairs_are_made_one_by_one() -> None:
    words = ["--steps", "3", "--seed", "2", "--repair", "mask", "--repair", "norm"]
    found = read_arguments("A program.", ["mask", "norm", "batch"], steps=7, words=words)
    assert (found.steps, found.seed) == (3, 2)
    assert found.repaired == {"mask", "norm"}


def test_a_repair_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_arguments("A program.", ["mask"], steps=7, words=["--repair", "luck"])
    assert "mask" in capsys.readouterr().err
