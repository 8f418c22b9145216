"""Functions that tell what they were called with."""

from __future__ import annotations

import inspect

import torch
from torch.nn import functional as F

from lossleuth.observe.patches.transparent import seeing


def test_a_function_tells_its_arguments_and_gives_what_it_gave() -> None:
    seen: list[tuple[object, ...]] = []
    watched = seeing(F.relu, lambda *args, **kwargs: seen.append((*args, *kwargs)))
    x = torch.tensor([-1.0, 2.0])
    assert watched(x, inplace=False).tolist() == [0, 2]
    assert seen == [(x, "inplace")]


def test_it_looks_like_the_original_to_who_asks() -> None:
    watched = seeing(F.cross_entropy, lambda *_, **__: None)
    assert watched.__globals__ is F.cross_entropy.__globals__
    assert watched.__name__ == "cross_entropy"
    assert inspect.signature(watched) == inspect.signature(F.cross_entropy)
    assert inspect.getsource(watched) == inspect.getsource(F.cross_entropy)


def test_a_compiler_is_not_told() -> None:
    seen: list[object] = []
    watched = seeing(F.relu, lambda *args, **_: seen.append(args))

    def program(x: torch.Tensor) -> torch.Tensor:
        return watched(x) + 1

    compiled = torch.compile(program, backend="eager", fullgraph=True)
    assert compiled(torch.tensor([-1.0, 2.0])).tolist() == [1, 3]
    assert seen == []
