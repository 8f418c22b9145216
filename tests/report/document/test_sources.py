"""Source around a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.report.document.sources import MAX_LINE_LENGTH, format_where, lines_of, source_at
from lossleuth.types.judgement import Where


def test_the_line_is_marked_and_neighbours_are_shown(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("".join(f"line {i}\n" for i in range(1, 9)))
    found = source_at(Where(str(script), 4, "head"), context=1)
    assert found is not None
    assert (found.first, found.marked, found.lines) == (3, 4, ["line 3", "line 4", "line 5"])
    assert found.place == f"{script}:4 in head"


@pytest.mark.parametrize("line", [0, -3, 4, 10_000, None])
def test_a_line_that_is_not_there_is_not_shown(tmp_path: Path, line: int | None) -> None:
    script = tmp_path / "train.py"
    script.write_text("one\ntwo")
    assert source_at(Where(str(script), line)) is None


def test_a_file_that_is_gone_or_a_folder_has_no_lines(tmp_path: Path) -> None:
    assert lines_of(str(tmp_path / "gone.py")) == []
    assert lines_of(str(tmp_path)) == []
    assert source_at(Where(None, 3)) is None
    assert source_at(None) is None


def test_bytes_that_are_no_text_and_endless_lines_do_no_harm(tmp_path: Path) -> None:
    data = tmp_path / "tokens.bin"
    data.write_bytes(b"\xff\xfe\x00" + b"x" * 5000)
    found = source_at(Where(str(data), 1))
    assert found is not None
    assert len(found.lines[0]) == MAX_LINE_LENGTH


def test_a_place_has_its_line_if_it_is_known() -> None:
    assert format_where(Where("a.bin")) == "a.bin"
    assert format_where(Where(None)) == "an unknown place"
