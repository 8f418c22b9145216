"""Down the gradient, or up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from steps import recorded_step

from lossleuth.findings.update import Descent
from lossleuth.probes.update.descent import descent
from lossleuth.tape.tape import Tape
from lossleuth.tape.window import Update, Window


def found(make: Any) -> Descent:
    answer = descent(recorded_step(make_optimizer=make))
    assert answer is not None
    return answer


def test_plain_descent_follows_the_gradient_exactly() -> None:
    # What is left of 1 is the rounding of the weights.
    sound = found(lambda p: torch.optim.SGD(p, lr=1.0))
    assert sound.cosine == pytest.approx(1, abs=1e-6)


def test_ascent_goes_the_other_way() -> None:
    planted = found(lambda p: torch.optim.SGD(p, lr=1.0, maximize=True))
    assert planted.cosine == pytest.approx(-1, abs=1e-6)


def test_adam_goes_down_without_following_exactly() -> None:
    sound = found(lambda p: torch.optim.AdamW(p, lr=1e-3))
    assert 0.1 < sound.cosine < 0.99
    turned = found(lambda p: torch.optim.AdamW(p, lr=1e-3, maximize=True))
    assert turned.cosine < -0.1


def by_hand(*moves: tuple[list[float], list[float] | None]) -> Descent | None:
    """Updates given as pairs of change and gradient."""
    after = [torch.tensor(change) for change, _ in moves]
    before = [torch.zeros_like(a) for a in after]
    gradients = [None if g is None else torch.tensor(g) for _, g in moves]
    update = Update(0, None, [], [], before, gradients, [], after)
    return descent(Window(0, Tape(), updates=[update]))


@pytest.mark.parametrize(
    ("falls", "rises", "cosine"), [(3.0, 4.0, -0.1414), (4.0, 3.0, 0.1414), (1.0, 1.0, 0.0)]
)
def test_all_tensors_count_together(falls: float, rises: float, cosine: float) -> None:
    answer = by_hand(([-falls], [1.0]), ([rises], [1.0]))
    assert answer is not None
    assert answer.cosine == pytest.approx(cosine, abs=1e-4)


def test_what_does_not_move_or_has_no_gradient_says_nothing() -> None:
    assert by_hand(([0.0], [1.0])) is None
    assert by_hand(([1.0], None)) is None
    assert by_hand(([1.0], [0.0])) is None
    assert by_hand() is None
