"""Which file a setting stands in."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.observe.provenance.setting_origins import LARGEST_FILE, LONGEST_LINE, setting_origins


def origin(path: Path, text: str | bytes, value: float = 0.2) -> int | None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = setting_origins({"lr": [value]}, [str(path)])
    return found["lr"]["line"] if found else None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("seed: 1\npeak: 0.2\n", 2),
        ("[optimizer]\nlr = 2e-1\n", 2),
        ('{"seed": 1,\n "lr": "0.2"}', 2),
        ('{"a": {"b": 1, "c": 0.20}}', 1),
        ("peak: .2\n", 1),
        ("--lr=0.2", 1),
        ("# lr is 0.2\nother: 0.3", None),
        ("lr: 0.2001", None),
        ("lr: 0.25", None),
    ],
)
def test_a_value_beside_a_name_is_found_with_its_line(
    tmp_path: Path, text: str, line: int | None
) -> None:
    assert origin(tmp_path / "settings.txt", text) == line


def test_zero_stands_everywhere_and_says_nothing(tmp_path: Path) -> None:
    assert origin(tmp_path / "a.yaml", "lr: 0\nseed: 0.0", value=0.0) is None


def test_what_is_no_small_text_is_passed_over(tmp_path: Path) -> None:
    assert origin(tmp_path / "a.bin", b"\xff\xfelr: 0.2") is None
    assert origin(tmp_path / "b.txt", "lr: 0.2\n" + "x" * LARGEST_FILE) is None
    assert origin(tmp_path / "c.txt", "x" * LONGEST_LINE + " lr: 0.2") is None
    assert setting_origins({"lr": [0.2]}, [str(tmp_path / "gone"), str(tmp_path)]) == {}


def test_each_setting_has_the_first_file_that_holds_it(tmp_path: Path) -> None:
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("peak: 0.2\nlimit: 5\n")
    files = [str(tmp_path / name) for name in ("one.yaml", "two.yaml")]
    found = setting_origins({"lr": [7.0, 0.2], "clip": [5.0], "other": [9.0]}, files)
    assert found == {
        "lr": {"file": files[0], "line": 1, "value": 0.2},
        "clip": {"file": files[0], "line": 2, "value": 5.0},
    }
