"""Targets permuted within a batch."""

from __future__ import annotations

import pytest
import torch
from changed_runs import Ran, entropy, sgd, trained, with_changes
from torch import Tensor
from torch.nn import functional as F

from lossleuth.interventions.data.shuffle_labels import SEED, ShuffleLabels
from lossleuth.observe.stop import InterventionFailed


def masked(targets: Tensor) -> Tensor:
    """The last positions of two rows are not supervised."""
    kept = targets.clone()
    kept[0, 3:] = -100
    kept[2, 1:] = -100
    return kept


class Shuffled:
    """The loss of a program that shuffles its supervised targets itself."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(SEED)

    def __call__(self, scores: Tensor, targets: Tensor) -> Tensor:
        flat = targets.flatten()
        places = [i for i, target in enumerate(flat.tolist()) if target != -100]
        order = torch.randperm(len(places), generator=self._generator).tolist()
        aims = flat.clone()
        for place, source in zip(places, order, strict=True):
            aims[place] = flat[places[source]]
        return F.cross_entropy(scores.flatten(0, 1), aims)


def test_it_equals_the_run_with_those_targets() -> None:
    expected = trained(make=sgd, loss_of=Shuffled())
    found = with_changes(lambda: trained(make=sgd), ShuffleLabels())
    assert trained(make=sgd).distance(expected) > 1e-2
    assert found.distance(expected) < 1e-6


def test_only_supervised_targets_change_places() -> None:
    shuffled = Shuffled()
    expected = trained(make=sgd, loss_of=lambda s, t: shuffled(s, masked(t)))
    found = with_changes(
        lambda: trained(make=sgd, loss_of=lambda s, t: entropy(s, masked(t))), ShuffleLabels()
    )
    assert found.distance(expected) < 1e-6


def test_a_loss_that_is_written_out_is_shuffled_as_well() -> None:
    def written_out(scores: Tensor, targets: Tensor) -> Tensor:
        picked = scores.log_softmax(-1).gather(-1, targets[..., None])
        return -picked.mean()

    found = with_changes(lambda: trained(make=sgd, loss_of=written_out), ShuffleLabels())
    assert found.distance(trained(make=sgd, loss_of=Shuffled())) < 1e-6


def test_targets_that_are_all_the_same_are_left_exactly_as_they_are() -> None:
    def same() -> Ran:
        return trained(loss_of=lambda s, t: 2 * entropy(s, torch.full_like(t, 3)))

    assert with_changes(same, ShuffleLabels()).is_exactly(same())


def test_the_random_numbers_of_the_program_stay_its_own() -> None:
    def drawing() -> Ran:
        ran = trained(make=sgd)
        return Ran([float(x) for x in torch.rand(4)], ran.weights)

    assert with_changes(drawing, ShuffleLabels()).losses == drawing().losses


def test_without_targets_the_change_is_said_to_have_failed() -> None:
    with pytest.raises(InterventionFailed, match="no logits and targets"):
        with_changes(lambda: trained(loss_of=lambda s, _: s.square().mean()), ShuffleLabels())
