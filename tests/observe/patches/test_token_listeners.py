"""Lookups with gradients are training, those without an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from loops import watching
from torch.nn import functional as F

TABLE = torch.randn(7, 3, requires_grad=True)
TOKENS = torch.tensor([1, 2, 3])


def test_a_lookup_and_a_comparison_without_gradients_are_an_evaluation(tmp_path: Path) -> None:
    with watching(tmp_path / "run") as observer, torch.no_grad():
        F.cross_entropy(F.embedding(TOKENS, TABLE), torch.tensor([0, 1, 2]))
        seen = observer.recording.evaluations
        assert seen.steps == seen.surely == [0]


def test_with_gradients_it_is_a_batch(tmp_path: Path) -> None:
    with watching(tmp_path / "run") as observer:
        F.cross_entropy(F.embedding(TOKENS, TABLE), torch.tensor([0, 1, 2]))
        assert observer.recording.evaluations.steps == []


@pytest.mark.parametrize(("reduction", "sums"), [("mean", 0), ("sum", 1), ("none", 1)])
def test_sums_over_no_target_are_told_from_means(tmp_path: Path, reduction: str, sums: int) -> None:
    with watching(tmp_path / "run") as observer:
        for target in (1, -100):
            scores = F.embedding(TOKENS, TABLE)
            F.cross_entropy(scores, torch.full((3,), target), reduction=reduction)
        observer._batches.look(observer._window)
        window = observer._window
        assert (window.supervised, window.unsupervised, window.empty_sums) == (3, 1, sums)


def test_what_we_look_up_ourselves_is_neither(tmp_path: Path) -> None:
    with watching(tmp_path / "run") as observer, torch.no_grad():
        observer.session.own.depth += 1
        F.cross_entropy(F.embedding(TOKENS, TABLE), torch.tensor([0, 1, 2]))
        assert observer.recording.evaluations.steps == []
