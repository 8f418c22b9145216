"""Numbers are read as exactly as they were printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.examiner.printed_numbers import numbers_in, printed_between
from lossleuth.run_directory import OUTPUT


@pytest.mark.parametrize(
    ("text", "value", "half", "digits"),
    [
        (b"loss 2.3456", 2.3456, 5e-5, 5),
        (b"ppl=1.023e+09;", 1.023e9, 5e5, 4),
        (b"{'eval_loss': '0.0312'}", 0.0312, 5e-5, 3),
        (b"perplexity 12034", 12034.0, 0.5, 5),
        (b"x -1.50", -1.5, 0.005, 3),
    ],
)
def test_a_number_has_its_value_its_last_digit_and_its_digits(
    text: bytes, value: float, half: float, digits: int
) -> None:
    (found,) = numbers_in(text)
    assert found.value == value
    assert found.half == pytest.approx(half)
    assert found.digits == digits


def test_what_is_no_number_is_left_out_and_lines_are_told_apart() -> None:
    text = b"step 40 of 200, v1.2.3 4a 0x12ff\nloss 2.5000\nnan inf 3.0000"
    assert [(n.value, n.line) for n in numbers_in(text)] == [(2.5, 1), (3.0, 2)]


def test_only_a_stretch_of_the_output_is_read(tmp_path: Path) -> None:
    first, second = b"loss 1.0000\n", b"loss 2.0000\n"
    (tmp_path / OUTPUT).write_bytes(first + second + b"loss 3.0000\n")
    stretch = [len(first), len(first + second)]
    assert [n.value for n in printed_between(tmp_path, stretch)] == [2.0]


def test_output_that_is_not_there_any_more_is_none(tmp_path: Path) -> None:
    assert printed_between(tmp_path, [0, 10]) == []
    (tmp_path / OUTPUT).write_bytes(b"loss 1.0000\n")
    assert printed_between(tmp_path, [0, 100]) == []
    assert printed_between(tmp_path, None) == []
