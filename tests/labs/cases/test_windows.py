"""Windows of a text in file order."""

from __future__ import annotations

import torch

from lossleuth.labs.cases.windows import Windows


def test_windows_are_one_character_apart_and_targets_one_ahead() -> None:
    inputs, targets = Windows(torch.arange(100), context=4, rows=3).batch(1)
    assert inputs.tolist() == [[3, 4, 5, 6], [4, 5, 6, 7], [5, 6, 7, 8]]
    assert torch.equal(targets, inputs + 1)


def test_after_the_end_comes_the_beginning() -> None:
    inputs, _ = Windows(torch.arange(8), context=4, rows=3).batch(1)
    assert inputs[:, 0].tolist() == [3, 0, 1]
