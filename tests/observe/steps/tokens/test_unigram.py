"""Entropy of the targets."""

from __future__ import annotations

import math

import torch

from lossleuth.observe.steps.tokens.unigram import TargetCounts


def test_batches_add_up_and_ignored_targets_do_not_count() -> None:
    counts = TargetCounts()
    assert counts.entropy() is None
    counts.add(torch.tensor([[0, 1], [-100, -100]]), -100)
    counts.add(torch.tensor([7, 7, -1]), -1)
    expected = -(2 * 0.25 * math.log(0.25) + 0.5 * math.log(0.5))
    entropy = counts.entropy()
    assert entropy is not None
    assert math.isclose(entropy, expected)


def test_an_id_out_of_all_bounds_is_left_out() -> None:
    counts = TargetCounts()
    counts.add(torch.tensor([1, 2**40]), -100)
    assert counts.entropy() == 0
