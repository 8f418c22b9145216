"""Functions around torch's own: told outside of a graph, the original within."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from loops import read, watching

from lossleuth.observe.patches import wrappers as around_torch
from lossleuth.observe.steps.observer import Observer


class Heard:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: self.calls.append((name, args))


def original(*args: Any) -> Any:
    """Stands for a function of torch."""
    return args[0] * 2


TOLD = {
    "clipping_by_norm": "clipped",
    "clipping_by_value": "about_to_clip_by_value",
    "scaling": "loss_scaled",
    "reading": "value_read",
    "loading": "batch_loaded",
}


def arguments(name: str) -> tuple[Any, ...]:
    x = torch.ones(2)
    return (x,) if name in ("reading", "loading") else (x, 1.0)


@pytest.mark.parametrize("name", TOLD)
def test_it_is_told_and_the_original_is_called(name: str) -> None:
    heard = Heard()
    stands = getattr(around_torch, name)(original, cast(Observer, heard))
    given = arguments(name)
    if name == "clipping_by_value":
        # Clipping takes one tensor or several, and gets several.
        assert stands(*given) == [given[0], given[0]]
    else:
        assert torch.equal(stands(*given), given[0] * 2)
    assert [told for told, _ in heard.calls] == [TOLD[name]]
    assert stands.__wrapped__ is original


@pytest.mark.parametrize("name", TOLD)
def test_a_graph_has_the_original_and_nothing_is_told(name: str) -> None:
    heard = Heard()
    stands = getattr(around_torch, name)(original, cast(Observer, heard))

    def program(*given: Any) -> Any:
        return stands(*given)

    whole = torch.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(whole(*arguments(name)), torch.full((2,), 2.0))
    assert heard.calls == []


def decorated(listener: Callable[..., None]) -> Callable[..., None]:
    """A listener with one more function around it, as a later change may bring."""

    @functools.wraps(listener)
    def outer(*args: Any) -> None:
        listener(*args)

    return outer


def test_the_users_line_is_found_through_one_more_decorator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners = ("backward_begins", "clipped", "about_to_clip_by_value", "update_ends")
    for name in (*listeners, "value_read"):
        monkeypatch.setattr(Observer, name, decorated(getattr(Observer, name)))
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with watching(tmp_path / "run"):
        first = sys._getframe().f_lineno
        weight.sum().backward()
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        optimizer.step()
        weight.detach().sum().item()
    (row,) = read(tmp_path / "run").rows()
    lines = {name: int(place.rpartition(":")[2]) for name, place in row.scalars["places"].items()}
    assert lines == {"backward": first + 1, "clip": first + 2, "update": first + 3}
    assert [place for _, place in row.scalars["reads"]] == [f"{__file__}:{first + 4}"]


def test_modules_are_heard_where_gradients_are_and_outside_of_graphs() -> None:
    heard = Heard()
    after = around_torch.module_listener(cast(Observer, heard))
    module = torch.nn.Identity()
    after(module, (), torch.ones(1))
    after(module, (), "no tensor")
    with torch.no_grad():
        after(module, (), torch.ones(1))

    def program(x: torch.Tensor) -> torch.Tensor:
        after(module, (), x)
        return x + 1

    torch.compile(program, backend="eager", fullgraph=True)(torch.ones(1))
    assert [told for told, _ in heard.calls] == ["module_returned"]
