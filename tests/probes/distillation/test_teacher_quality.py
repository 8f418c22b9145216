"""What a model knows, and where that is to be found."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lossleuth.probes.distillation.teacher_quality import OFFSETS, known_by, log_probabilities

CLASSES, ROWS = 16, 512


def text(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores of somebody who knows, and targets with those two places before and after."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(ROWS + 4, CLASSES, generator=generator)
    drawn = torch.multinomial(scores.softmax(-1), 1, generator=generator)[:, 0]
    around = torch.stack([drawn[2 + o : 2 + o + ROWS] for o in OFFSETS])
    return scores[2:-2], around


def test_who_knows_has_the_loss_of_the_text() -> None:
    scores, targets = text()
    found = known_by(scores, torch.zeros_like(scores), targets)
    assert found is not None
    shares = scores.softmax(-1)
    entropy = float(-(shares * shares.log()).sum(-1).mean())
    assert found.loss == pytest.approx(entropy, abs=4 * found.error)
    assert found.behind == pytest.approx(found.loss - math.log(CLASSES), abs=1e-5)
    assert min(found.offsets, key=lambda o: found.offsets[o]) == "0"
    assert found.renamed is not None and found.renamed > found.loss - 0.1


@pytest.mark.parametrize("shift", [-2, -1, 1, 2])
def test_knowledge_of_another_place_is_found_there(shift: int) -> None:
    scores, targets = text()
    moved = scores.roll(-shift, 0)[2:-2]
    found = known_by(moved, torch.zeros_like(moved), targets[:, 2:-2])
    assert found is not None
    assert min(found.offsets, key=lambda o: found.offsets[o]) == str(shift)
    assert found.offsets["0"] > found.offsets[str(shift)] + 1


def test_knowledge_under_other_names_is_found() -> None:
    scores, targets = text()
    order = torch.randperm(CLASSES, generator=torch.Generator().manual_seed(1))
    found = known_by(scores[:, order], torch.zeros_like(scores), targets)
    assert found is not None and found.renamed is not None
    assert found.loss > math.log(CLASSES)
    assert found.renamed < found.loss - 1


def test_who_knows_nothing_knows_nothing_under_any_names() -> None:
    _, targets = text()
    noise = 2 * torch.randn(ROWS, CLASSES, generator=torch.Generator().manual_seed(9))
    found = known_by(noise, torch.zeros_like(noise), targets)
    assert found is not None and found.renamed is not None and found.renamed_error is not None
    assert found.renamed > math.log(CLASSES) - 3 * found.renamed_error
    assert known_by(noise[:1], noise[:1], torch.full((5, 1), -100)) is None


def test_probabilities_and_scores_are_told_apart() -> None:
    scores = torch.randn(3, 5, dtype=torch.float64)
    as_scores = log_probabilities(scores)
    assert torch.allclose(log_probabilities(scores.softmax(-1)), as_scores, atol=1e-12)
    assert torch.allclose(as_scores.exp().sum(-1), torch.ones(3, dtype=torch.float64))
