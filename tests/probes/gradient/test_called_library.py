"""The library behind a backward."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import numpy as np
import pytest

from lossleuth.probes.gradient.called_library import called_library

NAME = ctypes.util.find_library("m")
MATHS: Any = ctypes.CDLL(NAME) if NAME else None
OTHER: Any = ctypes.CDLL(None)


def helper(x: float) -> Any:
    return MATHS.cos(x)


class Direct:
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return MATHS.sin(g)


class Through:
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return helper(g)


class Numpy:
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return np.sin(g)


@pytest.mark.skipif(NAME is None, reason="no library to name")
@pytest.mark.parametrize("cls", [Direct, Through])
def test_the_library_is_found_by_itself_and_through_functions(cls: Any) -> None:
    assert called_library(cls) == NAME


def test_without_a_library_none_is_named() -> None:
    assert called_library(Numpy) is None
    assert called_library(object) is None


def test_of_two_libraries_none_is_named() -> None:
    first, second = ctypes.CDLL(None), MATHS

    class Both:
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return first.sin(g), second.cos(g)

    first._name = "one"
    assert called_library(Both) is None
