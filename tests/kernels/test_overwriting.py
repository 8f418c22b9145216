"""When a gradient may not take the place of the logits."""

from __future__ import annotations

import pytest
import torch

from lossleuth.kernels.overwriting import mark_changed, overlaps, refuse_if_needed


@pytest.mark.parametrize(
    "computed",
    [
        lambda x: x @ torch.ones(5, 5),
        lambda x: torch.nn.functional.linear(x, torch.ones(5, 5)),
        lambda x: x * 2 + 1,
        lambda x: 30 * torch.tanh(x / 30),
        lambda x: (x * 2).view(2, 2, 5)[:, :1],
    ],
)
def test_results_that_nobody_needs_may_go(computed) -> None:  # type: ignore[no-untyped-def]  # lambdas
    logits = computed(torch.randn(4, 5, requires_grad=True))
    refuse_if_needed(logits)
    assert not overlaps(logits)


@pytest.mark.parametrize("function", [torch.exp, torch.tanh, torch.sigmoid, torch.relu, torch.sqrt])
def test_results_that_their_gradient_needs_may_not(function) -> None:  # type: ignore[no-untyped-def]  # torch
    x = torch.rand(4, 5, requires_grad=True)
    for logits in (function(x), function(x)[1:], torch.log_softmax(x, -1)):
        with pytest.raises(ValueError, match="autograd does not need any more, found the result"):
            refuse_if_needed(logits)


def test_plain_tensors_may_go_and_leaves_may_not() -> None:
    refuse_if_needed(torch.zeros(3, 4))
    with pytest.raises(ValueError, match="a leaf that requires grad"):
        refuse_if_needed(torch.zeros(3, 4, requires_grad=True))


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.zeros(3, 4), False),
        (torch.zeros(4, 3).t(), False),
        (torch.zeros(3, 4, 5)[:, 1:, ::2], False),
        (torch.zeros(1, 4).expand(3, 4), True),
        (torch.zeros(3, 1).expand(3, 4), True),
        (torch.zeros(10).as_strided((3, 4), (2, 1)), True),
        (torch.zeros(1, 4).expand(1, 4), False),
    ],
)
def test_memory_that_is_used_twice_is_seen(tensor: torch.Tensor, expected: bool) -> None:
    assert overlaps(tensor) is expected


def test_a_change_is_marked_where_torch_counts_changes() -> None:
    x = torch.zeros(3)
    before = x._version
    mark_changed(x)
    assert x._version == before + 1
    with torch.inference_mode():
        untracked = torch.zeros(3)
    mark_changed(untracked)
    assert untracked.is_inference()
