"""A verdict in a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from lossleuth.judge.verdict import Verdict
from lossleuth.report.render.terminal import WIDTH, is_coloured, lines
from lossleuth.types.judgement import Judgement, Status, Where

LONG = "Targets equal the inputs at offset 2 in 100 % of 4 096 positions; the next is at 1. " * 3


def verdict(status: str, judgements: dict[str, Judgement], *ranked: str) -> Verdict:
    return Verdict(status, judgements, ranked, 60, 12.3, ("the loss goes from 3.000 to 2.990",))


def test_the_answer_comes_first_with_its_proof_place_and_remedy(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("one = 1\ntwo = 2\nthree = 3\nfour = 4\n")
    proven = Judgement(Status.PROVEN, LONG, Where(str(script), 2, "head"), remedy="shift them")
    text = list(
        lines(
            verdict(
                "proven",
                {
                    "label_offset": proven,
                    "lr_too_high": Judgement(Status.REFUTED, "no"),
                    "overflow": Judgement(Status.UNTESTED, "no"),
                    "ascent": Judgement(Status.ERRORED, "no"),
                },
                "label_offset",
            )
        )
    )
    whole = "\n".join(text)
    assert " ".join(text).startswith(
        "Proven. The cause is label_offset: targets are not the next token, at"
    )
    assert "1. label_offset: proven" in text
    assert "Remedy: shift them" in whole
    assert "   >     2 two = 2" in text
    assert "         1 one = 1" in text
    assert "         3 three = 3" in text
    assert "four" not in whole
    assert "train.py:2 in head" in whole
    assert "Ruled out: lr_too_high." in whole
    assert "Not tested: overflow." in whole
    assert "Internal errors while judging: ascent." in whole
    assert text[-1] == "60 steps observed in 12 s."


def test_healthy_and_cannot_tell_are_said_with_what_was_seen() -> None:
    healthy = " ".join(lines(verdict("healthy", {})))
    assert healthy.startswith("Healthy. No fault found: the run is learning (the loss goes")
    unknown = " ".join(lines(verdict("cannot_tell", {})))
    assert unknown.startswith("Cannot tell. No cause found, but the loss goes from 3.000 to 2.990.")


def test_no_line_is_wider_than_a_terminal() -> None:
    judgement = Judgement(Status.PROVEN, LONG, remedy=LONG)
    names = {f"a_rather_long_name_{i}": Judgement(Status.REFUTED, "") for i in range(30)}
    found = lines(verdict("proven", {"label_offset": judgement, **names}, "label_offset"))
    assert max(map(len, found)) <= WIDTH


def test_nothing_that_a_script_holds_commands_the_terminal(tmp_path: Path) -> None:
    script = tmp_path / "tr\x1b[2Jain.py"
    script.write_text("x = '\x1b[2J'\n")
    there = Judgement(Status.SUSPECTED, "a \x1b[31mred\x07 1", Where(str(script), 1))
    found = list(lines(verdict("suspected", {"ascent": there}, "ascent")))
    assert all(line.isprintable() for line in found)


def test_a_place_that_is_no_readable_source_is_named_all_the_same(tmp_path: Path) -> None:
    for where in (Where("tokens.bin"), Where(str(tmp_path / "gone.py"), 3), Where(None)):
        there = Judgement(Status.PROVEN, "1 is not 2", where)
        whole = "\n".join(lines(verdict("proven", {"ascent": there}, "ascent")))
        assert (where.file is None) == (" at " not in whole)


def test_what_does_not_matter_needs_no_remedy() -> None:
    benign = Judgement(Status.BENIGN, "1 is 1", remedy="do something")
    whole = "\n".join(lines(verdict("healthy", {"clip_too_tight": benign}, "clip_too_tight")))
    assert "1. clip_too_tight: benign" in whole
    assert "Remedy" not in whole


def test_colour_is_for_terminals_whose_users_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert is_coloured(Terminal())
    assert not is_coloured(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not is_coloured(Terminal())
    plain = list(lines(verdict("healthy", {})))
    coloured = list(lines(verdict("healthy", {}), coloured=True))
    assert coloured[0] == f"\x1b[1;32m{plain[0]}\x1b[0m"
    assert coloured[-1] == plain[-1]


def test_many_causes_with_one_reason_share_a_sentence() -> None:
    alike = {f"teacher_{i}": Judgement(Status.REFUTED, "nobody teaches") for i in range(5)}
    other = {"lr_too_high": Judgement(Status.REFUTED, "3 is 3")}
    text = " ".join(lines(verdict("healthy", alike | other)))
    assert "Ruled out: lr_too_high." in text
    assert "teacher_0 and 4 similar causes ruled out: nobody teaches." in text


def test_a_wrong_number_is_not_called_the_cause_of_a_bad_training() -> None:
    wrong = Judgement(Status.PROVEN, "2.5 is printed, 2.1 is true", Where("train.py", 2))
    found = verdict("proven", {"mean_of_means": wrong}, "mean_of_means")
    first = " ".join(list(lines(found))[:3])
    start = "Proven. No fault found in training, but a reported number is wrong (mean_of_means: "
    assert first.startswith(start)
    assert "), at train.py:2." in first
