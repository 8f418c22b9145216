"""Targets that are read off a gradient."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_layouts import (
    Net,
    Options,
    binary,
    inputs_and_targets,
    one_hot_product,
    softmax_by_hand,
    step_of,
)
from torch import Tensor
from torch.nn import functional as F

from lossleuth.tape.roles.inferred_targets import (
    binary_targets,
    infer_targets,
    softmax_targets,
)


def with_gradient(loss_of: object, rows: Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.double().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(rows), rows)  # type: ignore[operator]  # a function
    return rows.detach(), gradient


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.01, 1.0, 5.0]),
    smoothing=st.sampled_from([0.0, 0.1]),
    size_term=st.sampled_from([0.0, 1e-2]),
    sign=st.sampled_from([1.0, -1.0]),
)
def test_targets_are_those_of_any_weighted_cross_entropy(
    seed: int, scale: float, smoothing: float, size_term: float, sign: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = scale * torch.randn(12, 9, generator=generator)
    targets = torch.randint(9, (12,), generator=generator)
    weights = torch.rand(12, generator=generator).double() + 0.1
    weights[3] = 0.0

    def loss(z: Tensor) -> Tensor:
        each = F.cross_entropy(z, targets, reduction="none", label_smoothing=smoothing)
        # The size of the logits' sum, as some trainers punish it.
        return sign * (weights * (each + size_term * z.logsumexp(-1).square())).sum()

    found = softmax_targets(*with_gradient(loss, rows))
    assert found is not None
    expected = targets.clone()
    expected[3] = -1
    assert found.tolist() == expected.tolist()


def test_a_regression_has_no_targets() -> None:
    goal = torch.randn(12, 9).double()
    assert softmax_targets(*with_gradient(lambda z: (z - goal).square().mean(), goal + 1)) is None
    assert binary_targets(*with_gradient(lambda z: (z**3).mean(), torch.randn(12, 9))) is None


def test_a_lesson_of_soft_targets_has_no_hard_ones() -> None:
    soft = torch.softmax(torch.randn(12, 9), -1).double()
    loss_rows = with_gradient(lambda z: F.cross_entropy(z, soft), torch.randn(12, 9))
    assert softmax_targets(*loss_rows) is None


def test_each_class_may_have_a_loss_of_its_own() -> None:
    targets = torch.randint(9, (12,))
    answers = F.one_hot(targets, 9).double()
    answers[2] = 0.0

    def loss(z: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(z, answers)

    found = binary_targets(*with_gradient(loss, torch.randn(12, 9)))
    targets[2] = -1
    assert found is not None and found.tolist() == targets.tolist()


def test_sets_of_labels_are_no_targets_of_rows() -> None:
    answers = torch.zeros(12, 9).double()
    answers[:, :2] = 1.0

    def loss(z: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(z, answers)

    # Else not one row would seem to have a target.
    assert binary_targets(*with_gradient(loss, torch.randn(12, 9))) is None


def test_gradients_that_are_no_numbers_tell_nothing() -> None:
    rows = torch.randn(4, 9).double()
    assert softmax_targets(rows, torch.full_like(rows, torch.nan)) is None
    assert softmax_targets(rows, torch.zeros_like(rows)) is None


def test_the_logits_of_losses_by_hand_are_found() -> None:
    wanted = inputs_and_targets(Options())[1].reshape(-1)
    for layout in (one_hot_product, softmax_by_hand):
        window = step_of(layout)
        found = infer_targets(window, window.backwards[0])
        assert found is not None and not found.binary
        assert found.targets.tolist() == wanted.tolist()
    window = step_of(binary)
    found = infer_targets(window, window.backwards[0])
    assert found is not None and found.binary


def test_a_loss_of_another_kind_has_none() -> None:
    def squares(net: Net, o: Options) -> Tensor:
        x, _ = inputs_and_targets(o)
        return net.head(net.features(x)).square().mean()

    window = step_of(squares)
    assert infer_targets(window, window.backwards[0]) is None
