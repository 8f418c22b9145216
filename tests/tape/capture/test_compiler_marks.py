"""The compiler stays out of our functions, and in the program's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType

import pytest
import torch
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.decorators import skip

from lossleuth.tape.capture.compiler_marks import (
    compiling,
    constant_for_compiler,
    ends_the_graph,
    never_compile,
    transparent_to_compiler,
)


def deep(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def plain(x: torch.Tensor) -> torch.Tensor:
    return deep(x) + 1


@never_compile
def kept(x: torch.Tensor) -> torch.Tensor:
    return deep(x) + 1


@transparent_to_compiler
def standing(x: torch.Tensor) -> torch.Tensor:
    return deep(x) if compiling() else deep(x) + 1


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """Names of the functions that are compiled."""
    names: list[str] = []

    def note(code: CodeType, _new: CodeType) -> None:
        names.append(code.co_name)

    torch._dynamo.reset()
    hook = register_bytecode_hook(note)
    yield names
    hook.remove()


def eagerly(inner: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Call `inner` as Python does inside a compiled function: the compiler is asked about it."""

    @skip
    def by_python(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    assert torch.compile(by_python, backend="eager")(torch.ones(2)).tolist() == [3.0, 3.0]


def test_a_plain_function_is_compiled(compiled: list[str]) -> None:
    eagerly(plain)
    assert "plain" in compiled


def test_ours_is_not_and_nothing_that_it_calls(compiled: list[str]) -> None:
    eagerly(kept)
    assert not {"kept", "deep"} & set(compiled)


def test_what_stands_around_something_is_not_but_what_it_calls_is(compiled: list[str]) -> None:
    eagerly(standing)
    assert "standing" not in compiled
    assert "deep" in compiled


def test_inside_a_graph_what_stands_around_is_gone_through() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return standing(x)

    whole = torch.compile(program, backend="eager", fullgraph=True)
    assert whole(torch.ones(2)).tolist() == [2.0, 2.0]


def test_ours_ends_a_graph() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return kept(x) * 10

    assert torch.compile(program, backend="eager")(torch.ones(2)).tolist() == [30.0, 30.0]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(program, backend="eager", fullgraph=True)(torch.ones(2))


def test_what_is_asked_once_is_called_while_compiling_with_the_object_itself() -> None:
    asked: list[object] = []

    @constant_for_compiler
    def is_known(optimizer: object) -> bool:
        asked.append(optimizer)
        return True

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if is_known(optimizer) else x

    whole = torch.compile(program, backend="eager", fullgraph=True)
    assert [whole(torch.ones(1)).item() for _ in range(3)] == [2.0, 2.0, 2.0]
    assert asked == [optimizer]


def test_steps_of_torch_end_the_graph_by_themselves() -> None:
    class Own(torch.optim.Optimizer):
        def step(self) -> None:  # type: ignore[override]  # as users write it
            pass

    assert ends_the_graph(torch.optim.AdamW.step)
    Own([torch.nn.Parameter(torch.ones(1))], {})
    assert not ends_the_graph(Own.step)
    assert not ends_the_graph(None)
