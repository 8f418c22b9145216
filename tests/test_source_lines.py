"""The line that makes a result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest

from lossleuth.source_lines import line_of_result


def named(a: Any, b: Any) -> Any:
    first = a * 2
    first = first + b
    second, third = b, a
    second += 1
    return first, second, a * b, third


def single(a: Any) -> Any:
    found = a + 1
    return found


def direct(a: Any) -> Any:
    return a + 1


@functools.cache
def decorated(a: Any) -> Any:
    result: Any = a
    return result


def nothing(a: Any) -> None:
    a.clear()


# The line of each result, counted from the function's head.
@pytest.mark.parametrize(
    ("function", "position", "line"),
    [
        (named, 0, 2),
        (named, 1, 4),
        (named, 2, 5),
        (named, 3, 3),
        (named, 9, 5),
        (single, 0, 1),
        (decorated.__wrapped__, 0, 2),
    ],
)
def test_a_result_is_made_where_it_was_assigned_last(
    function: Callable[..., Any], position: int, line: int
) -> None:
    code: CodeType = function.__code__
    assert line_of_result(code, position) == code.co_firstlineno + line


def test_what_is_returned_as_it_is_computed_stands_at_the_return() -> None:
    code: CodeType = direct.__code__
    found = line_of_result(code, 0)
    assert found is not None
    assert code.co_firstlineno < found <= code.co_firstlineno + 4


def test_without_a_return_or_a_file_there_is_no_line() -> None:
    assert line_of_result(nothing.__code__, 0) is None
    made: dict[str, Any] = {}
    exec("def f(a):\n    return a\n", made)
    assert line_of_result(made["f"].__code__, 0) is None
