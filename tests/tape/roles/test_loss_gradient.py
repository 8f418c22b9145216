"""The gradient of a loss at tensors on the way to it."""

from __future__ import annotations

import pytest
import torch
from loss_layouts import (
    CLASSES,
    LENGTH,
    ROWS,
    Options,
    chunked,
    inputs_and_targets,
    one_text,
    step_of,
    transposed_for_the_loss,
)

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.loss_gradient import gradient_at, gradients_at
from lossleuth.tape.roles.roles import find_roles


def test_it_is_that_of_cross_entropy_in_float64() -> None:
    window = step_of(transposed_for_the_loss)
    roles = find_roles(window)
    assert roles is not None and roles.scores is not None and roles.scores_at is not None
    scores, gradient = gradient_at(window, window.backwards[0], roles.scores, roles.scores_at)
    p = torch.softmax(scores.movedim(roles.class_axis, -1).reshape(-1, CLASSES), -1)
    wanted = p.clone()
    wanted[torch.arange(ROWS * LENGTH), inputs_and_targets(Options())[1].reshape(-1)] -= 1
    found = gradient.movedim(roles.class_axis, -1).reshape(-1, CLASSES)
    assert found.dtype == torch.float64
    assert float((found - wanted / (ROWS * LENGTH)).abs().max()) < 1e-15


def test_many_tensors_at_once_give_the_same_as_one_by_one() -> None:
    window = step_of(chunked)
    roles, run = find_roles(window), window.backwards[0]
    assert roles is not None and len(roles.parts) == 5
    numbers = [part.scores for part in roles.parts if part.scores is not None]
    many = gradients_at(window, run, numbers)
    for part, (value, gradient) in zip(roles.parts, many, strict=True):
        assert part.scores is not None and part.scores_at is not None
        alone = gradient_at(window, run, part.scores, part.scores_at)
        assert float((alone[0] - value).abs().max()) < 1e-14
        assert float((alone[1] - gradient).abs().max()) < 1e-16


def test_a_tensor_that_the_loss_does_not_depend_on_is_named() -> None:
    window = step_of(one_text)
    update = window.backwards[0]
    biases = [i for i, t in window.tape.leaves.items() if tuple(t.shape) == (CLASSES,)]
    with pytest.raises(CannotReplay, match="does not depend"):
        gradient_at(window, update, biases[0], update.at)
