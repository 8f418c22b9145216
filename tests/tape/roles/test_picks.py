"""What a loss picks by its targets."""

from __future__ import annotations

import torch
from steps import VOCABULARY, recorded_step, shifted_loss
from torch import Tensor, nn

from lossleuth.tape.roles.picks import Pick, picks_of, uses_autograd
from lossleuth.tape.window import Window


def picked(loss: object = shifted_loss) -> tuple[Window, list[Pick]]:
    window = recorded_step(loss)  # type: ignore[arg-type]  # a loss function
    return window, picks_of(window.tape, window.tape.operations)


def test_a_cross_entropy_picks_its_targets_once() -> None:
    window, (pick,) = picked()
    assert pick.size == VOCABULARY * window.tape.layouts[pick.targets].shape[0]
    assert uses_autograd(window.tape, window.tape.operations)


def test_turns_of_a_loop_are_told_from_another_line() -> None:
    def in_turns(model: nn.Module, tokens: Tensor) -> Tensor:
        chances = model(tokens[:, :-1]).log_softmax(-1)
        losses = [-chances[:, t].gather(1, tokens[:, t + 1, None]).mean() for t in (0, 1)]
        return torch.stack(losses).mean() - chances[:, 2].gather(1, tokens[:, 3, None]).mean()

    _, (first, second, other) = picked(in_turns)
    assert first.is_turn_of(second) and not first.is_turn_of(other)


def test_numbers_that_are_no_scores_pick_nothing() -> None:
    def of_constants(model: nn.Module, tokens: Tensor) -> Tensor:
        torch.zeros(3, 5).gather(1, tokens[:3, :1] % 5)
        return model(tokens).square().mean()

    assert picked(of_constants)[1] == []
