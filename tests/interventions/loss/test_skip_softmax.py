"""The softmax before the loss left out."""

from __future__ import annotations

import pytest
from changed_runs import Ran, entropy, sgd, trained, with_changes

from lossleuth.interventions.loss.skip_softmax import SkipSoftmax
from lossleuth.observe.stop import InterventionFailed


def test_a_loss_of_probabilities_becomes_one_of_scores() -> None:
    def twice() -> Ran:
        return trained(make=sgd, loss_of=lambda s, t: entropy(s.softmax(-1), t))

    right = trained(make=sgd)
    assert twice().distance(right) > 1e-2
    assert with_changes(twice, SkipSoftmax()).distance(right) < 1e-6


def test_without_a_second_softmax_it_says_so() -> None:
    with pytest.raises(InterventionFailed, match="no softmax was found"):
        with_changes(trained, SkipSoftmax())
    with pytest.raises(InterventionFailed, match="no logits and targets"):
        with_changes(lambda: trained(loss_of=lambda s, t: s.square().mean()), SkipSoftmax())
