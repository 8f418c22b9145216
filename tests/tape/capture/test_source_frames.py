"""Places of the user's code in the stack, and custom functions at work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lossleuth.places import is_library
from lossleuth.tape.capture import source_frames as frames
from lossleuth.tape.capture.source_frames import custom_function, place_of
from lossleuth.tape.tape import Place


def line() -> int:
    return sys._getframe(1).f_lineno


class Calls(torch.autograd.Function):
    """Calls something in its forward and its backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, what: Callable[[], None]) -> Tensor:
        what()
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * 2, None


def from_file(folder: Path, name: str) -> Callable[..., Any]:
    """A function in a file there, which calls what it is given."""
    path = folder / name
    code = compile("def call(what):\n\n    return what()\n", str(path), "exec")
    made: dict[str, Any] = {}
    exec(code, made)
    return made["call"]


def test_the_place_is_the_line_that_asks() -> None:
    assert place_of() == (Place(__file__, line()), True)


def test_a_given_frame_is_where_the_search_starts() -> None:
    def inner() -> tuple[Place | None, bool]:
        return place_of(sys._getframe(1))

    assert inner() == (Place(__file__, line()), True)


def test_frames_of_torch_are_passed_over() -> None:
    found: list[tuple[Place | None, bool]] = []
    module = nn.Identity()
    module.register_forward_hook(lambda *_: found.append(place_of(sys._getframe(1))))
    module(torch.ones(1))
    called = line() - 1
    assert found == [(Place(__file__, called), True)]


def test_a_library_on_top_makes_the_place_not_the_users_own() -> None:
    call = from_file(Path(np.__file__).parent, "made_up.py")
    found = call(lambda: place_of(sys._getframe(1)))
    called = line() - 1
    assert found == (Place(__file__, called), False)


@pytest.mark.parametrize("package", ["torchvision", "torch_geometric"])
def test_a_library_named_like_torch_is_a_library_of_its_own(package: str) -> None:
    call = from_file(Path(torch.__file__).parent.parent / package, "made_up.py")
    assert call(lambda: place_of(sys._getframe(1)))[1] is False


def test_without_a_user_the_innermost_library_is_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(np.__file__).parent
    outer, inner = from_file(folder, "outer.py"), from_file(folder, "inner.py")
    # Nobody's file is the user's.
    monkeypatch.setattr(frames, "is_library", lambda name: True)
    found = outer(lambda: inner(lambda: place_of(sys._getframe(1))))
    assert found == (Place(str(folder / "inner.py"), 3), False)
    assert not is_library(__file__)


def test_outside_a_custom_function_there_is_none() -> None:
    found: list[FrameType | None] = [custom_function()]
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda *_: found.append(custom_function()))
    layer(torch.ones(1, 2))
    Calls.apply(torch.ones(1), lambda: None)
    found.append(custom_function())
    assert found == [None, None, None]


def test_inside_a_custom_function_its_apply_is_found() -> None:
    found: list[FrameType | None] = []
    Calls.apply(torch.ones(1), lambda: found.append(custom_function()))
    (frame,) = found
    assert frame is not None
    assert frame.f_code.co_name == "apply"
    assert frame.f_locals["cls"] is Calls


def test_the_place_of_a_custom_function_is_the_line_that_applies_it() -> None:
    found: list[Any] = []
    Calls.apply(torch.ones(1), lambda: found.append(place_of(custom_function())))
    called = line() - 1
    assert found == [(Place(__file__, called), True)]


def test_of_nested_custom_functions_the_inner_is_found() -> None:
    found: list[FrameType | None] = []

    class Inner(Calls):
        pass

    Calls.apply(
        torch.ones(1),
        lambda: Inner.apply(torch.ones(1), lambda: found.append(custom_function())),
    )
    assert found[0] is not None
    assert found[0].f_locals["cls"] is Inner
