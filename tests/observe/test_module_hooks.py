"""Hooks on all modules, of which nobody is told."""

from __future__ import annotations

import warnings

import pytest
import torch

from lossleuth.observe.module_hooks import listen_to_modules


def test_every_module_is_heard_until_that_is_undone() -> None:
    heard: list[str] = []
    model = torch.nn.Sequential(torch.nn.ReLU())
    undo = listen_to_modules(
        lambda module, *_: heard.append(f"after {type(module).__name__}"),
        lambda module, *_: heard.append(f"before {type(module).__name__}"),
    )
    model(torch.ones(1))
    undo()
    model(torch.ones(1))
    assert heard == ["before Sequential", "before ReLU", "after ReLU", "after Sequential"]


def test_a_module_that_fails_is_still_left() -> None:
    heard: list[object] = []
    undo = listen_to_modules(lambda *_: heard.append("after"), lambda *_: heard.append("before"))
    with pytest.raises(RuntimeError):
        torch.nn.Linear(2, 2)(torch.ones(3))
    undo()
    assert heard == ["before", "after"]


def test_torch_does_not_complain_of_them_to_the_user() -> None:
    compiled = torch.compile(torch.nn.ReLU(), backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        undo = listen_to_modules(lambda *_: None)
        compiled(torch.ones(1))
        undo()
        assert list(warnings.filters) == before


def test_filters_that_the_program_has_replaced_are_left_alone() -> None:
    undo = listen_to_modules(lambda *_: None)
    with warnings.catch_warnings():
        warnings.resetwarnings()
        undo()
        assert not warnings.filters
    undo = listen_to_modules(lambda *_: None)
    undo()
