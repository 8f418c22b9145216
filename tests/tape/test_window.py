"""Recorded steps."""

from __future__ import annotations

import torch
from steps import recorded_step

from lossleuth.tape.window import Backward


def test_what_a_backward_added_is_the_difference() -> None:
    run = Backward(0, [0], [None], {1: torch.tensor([1.0]), 2: None, 3: None})
    run.after = {1: torch.tensor([3.5]), 2: torch.tensor([2.0]), 3: None}
    added = run.added()
    assert added[1] is not None
    assert added[1].item() == 2.5
    assert added[2] is not None
    assert added[2].item() == 2.0
    assert added[3] is None


def test_gradients_that_were_returned_add_to_nothing() -> None:
    run = Backward(0, [0], [None], {1: torch.tensor([1.0])}, {1: torch.tensor([3.5])})
    run.returned = True
    added = run.added()
    assert added[1] is not None
    assert added[1].item() == 3.5


def test_a_parameter_without_a_name_goes_by_its_shape() -> None:
    window = recorded_step()
    number = next(iter(window.tape.parameters))
    window.names.clear()
    assert "shape" in window.name_of(number)


def test_sparse_gradients_count_as_what_they_are() -> None:
    sparse = torch.tensor([0.0, 2.0, 0.0]).to_sparse()
    run = Backward(0, [0], [None], {1: sparse}, {1: sparse * 3})
    added = run.added()
    assert added[1] is not None
    assert added[1].tolist() == [0, 4, 0]


def test_what_was_added_to_nothing_is_the_gradient_as_it_is() -> None:
    gradient = torch.tensor([2.0])
    run = Backward(0, [0], [None], {1: None, 2: gradient}, {1: gradient, 2: gradient * 3, 3: None})
    assert run.added_to(1) is gradient
    assert (found := run.added_to(2)) is not None
    # A difference of two is not rounded once more.
    assert found.item() == 4.0 and found.dtype == torch.float64
    assert run.added_to(3) is None and run.added_to(4) is None
