"""Cures as changes of source."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.report.document.fixes import suggested_fix
from lossleuth.types.change import Change, Effect
from lossleuth.types.judgement import Judgement, Status, Where


def repaired(tmp_path: Path, cause: str, line: str, harm: Effect | None = None) -> str | None:
    """What becomes of the second of three lines."""
    script = tmp_path / "train.py"
    script.write_text(f"before = 1\n{line}\nafter = 2\n")
    judgement = Judgement(Status.PROVEN, "1", Where(str(script), 2), harm=harm)
    found = suggested_fix(cause, judgement)
    if found is None:
        return None
    assert found.lines == [" before = 1", f"-{line}", found.lines[2], " after = 2"]
    assert found.lines[2].startswith("+")
    return found.lines[2][1:]


def lower(factor: float) -> Effect:
    return Effect(Change.of("scale_lr", factor=factor), 1.0, 0.1, 3, 26, 3.0, 2.0, 4.0)


@pytest.mark.parametrize(
    ("cause", "line", "expected"),
    [
        ("graph_cut", "h = block(h.data)", "h = block(h)"),
        ("double_softmax", "y = softmax(a + b, 1)", "y = a + b"),
        ("future_leak", "y = sdpa(q, k, v, is_causal=False)", "y = sdpa(q, k, v, is_causal=True)"),
        ("ascent", "o = Adam(p, maximize=True)", "o = Adam(p, maximize=False)"),
    ],
)
def test_a_line_that_is_understood_is_repaired(
    tmp_path: Path, cause: str, line: str, expected: str
) -> None:
    assert repaired(tmp_path, cause, line) == expected


def test_a_rate_is_scaled_by_the_factor_that_helped(tmp_path: Path) -> None:
    line = 'ü = "ü"; o = Adam(model.parameters(), lr=0.3)'
    expected = 'ü = "ü"; o = Adam(model.parameters(), lr=0.03)'
    assert repaired(tmp_path, "lr_too_high", line, lower(0.1)) == expected
    assert repaired(tmp_path, "lr_too_high", line) is None


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        # Which of two is meant would be a guess.
        ("graph_cut", "x = a.detach() + b.detach()"),
        ("graph_cut", "x = a"),
        ("graph_cut", "x = ("),
        # A cause without a fix.
        ("label_offset", "loss = f(x[:, :-2], y[:, 2:])"),
    ],
)
def test_what_is_not_exactly_known_is_left_to_a_sentence(
    tmp_path: Path, cause: str, line: str
) -> None:
    assert repaired(tmp_path, cause, line, lower(0.1)) is None


def test_a_place_without_a_line_or_a_file_has_no_diff(tmp_path: Path) -> None:
    for where in (None, Where(None), Where("tokens.bin"), Where(str(tmp_path / "gone.py"), 3)):
        assert suggested_fix("graph_cut", Judgement(Status.PROVEN, "1", where)) is None
