"""The demo of a founding case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lossleuth.examiner import commands
from lossleuth.judge.verdict import Verdict
from lossleuth.labs.cases.demo import run_demo
from lossleuth.labs.cases.stories import STORIES, Story, story
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Judgement, Status

PROVEN = Judgement(Status.PROVEN, "The gradient differs by 0.5 of its size.", remedy="mend it")
REFUTED = Judgement(Status.REFUTED, "rates are right within 0.01")


def demo(
    monkeypatch: pytest.MonkeyPatch, folder: Path, of: Story, blamed: Judgement = REFUTED
) -> tuple[int, list[str], list[Any]]:
    """Exit code, what was shown, and what was examined; the examination itself is a given."""
    shown: list[str] = []
    examined: list[Any] = []
    judgements = {"wrong_backward": PROVEN} | dict.fromkeys(of.blamed, blamed)
    verdict = Verdict("proven", judgements, ("wrong_backward",), 60, 12.0)

    def examine(script: Path, arguments: list[str], *, out: Path | None) -> tuple[Verdict, Path]:
        examined.append((script, arguments, out, len(shown)))
        return verdict, folder

    monkeypatch.setattr(commands, "examine_script", examine)
    return run_demo(of.name, Path("out"), shown.append), shown, examined


@pytest.mark.parametrize("of", STORIES, ids=lambda s: s.name)
def test_a_story_goes_from_belief_to_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: Story
) -> None:
    code, shown, examined = demo(monkeypatch, tmp_path, of)
    whole = "\n".join(shown)
    parts = [
        of.believed,
        "The cause is wrong_backward",
        "The suspect at the time,",
        of.text,
        "lossleuth run YOUR_SCRIPT",
    ]
    places = [whole.index(part) for part in parts]
    assert places == sorted(places)
    assert code == 1
    assert examined == [(of.script, [], Path("out"), 3)]
    assert of.script.exists()


def test_what_was_believed_is_refuted_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, shown, _ = demo(monkeypatch, tmp_path, story("rising_loss"))
    assert (
        "The suspect at the time, lr_too_high, is ruled out: rates are right within 0.01." in shown
    )


@pytest.mark.parametrize("status", [Status.UNTESTED, Status.SUSPECTED, Status.PROVEN])
def test_a_belief_that_was_not_refuted_is_not_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    _, shown, _ = demo(
        monkeypatch, tmp_path, story("rising_loss"), Judgement(status, "at 0.1, it rises")
    )
    assert not any(line.startswith("The suspect at the time") for line in shown)


def test_an_unknown_case_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"'gone'.*rising_loss, always_clipped"):
        run_demo("gone", None, print)
