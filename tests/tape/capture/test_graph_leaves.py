"""The leaves of a graph."""

from __future__ import annotations

import torch

from lossleuth.tape.capture.graph_leaves import leaves_behind


def test_every_leaf_that_needs_a_gradient_is_found_once() -> None:
    a, b, frozen = (torch.ones(2, requires_grad=flag) for flag in (True, True, False))
    loss = (a * b * frozen + a).sum()
    assert {id(leaf) for leaf in leaves_behind([loss])} == {id(a), id(b)}


def test_a_cut_hides_what_is_behind_it() -> None:
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    (found,) = leaves_behind([(a.detach() * b).sum()])
    assert found is b


def test_roots_without_a_graph_have_none() -> None:
    assert leaves_behind([torch.ones(1), None]) == []
