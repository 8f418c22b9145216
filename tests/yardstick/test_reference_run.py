"""The reference transformer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from lossleuth.reference.train.model import LanguageModel
from lossleuth.yardstick import reference_run
from lossleuth.yardstick.reference_run import (
    MIN_TRIED,
    NARROWEST,
    RATES,
    Step,
    shape_for,
    size_of,
    train_reference,
)
from lossleuth.yardstick.supervised_batches import NONE, Batch


def steps(count: int, rows: int = 8, width: int = 12) -> list[Step]:
    """Counting texts: each token is the one before and one more, in a circle of 16."""
    generator = np.random.default_rng(0)
    found: list[Step] = []
    for _ in range(count):
        starts = generator.integers(0, 16, (rows, 1), dtype=np.int32)
        text = (starts + np.arange(width + 1, dtype=np.int32)) % 16
        found.append([Batch(text[:, :-1].copy(), text[:, 1:].copy())])
    return found


@pytest.mark.parametrize("parameters", [5_000, 60_000, 500_000, 1_000_000, 7_000_000, 20_000_000])
@pytest.mark.parametrize("vocabulary", [16, 5_000])
def test_a_shape_has_no_more_parameters_than_wanted_and_nearly_as_many(
    parameters: int, vocabulary: int
) -> None:
    shape = shape_for(parameters, vocabulary, 32)
    if shape.width > NARROWEST:
        assert 0.55 * parameters < size_of(shape) <= parameters
    if size_of(shape) < 1e7:
        assert size_of(shape) == sum(p.numel() for p in LanguageModel(shape).parameters())


def test_what_can_be_learnt_is_learnt_and_scored_before() -> None:
    found = train_reference(steps(120), 16, 6_000, seconds=60.0)
    assert len(found.losses) == 120
    assert found.losses[0] == pytest.approx(math.log(16), abs=0.1)
    assert found.losses[-1] < 0.5
    assert found.parameters <= 6_000 and found.rate in RATES


def test_losses_are_means_over_all_targets_of_all_micro_batches() -> None:
    (whole,) = steps(1)[0]
    unsupervised = np.full_like(whole.targets, NONE)
    unsupervised[:2] = whole.targets[:2]
    step = [Batch(whole.tokens, unsupervised), Batch(whole.tokens[2:], whole.targets[2:])]
    split, alone = (train_reference([s], 16, 6_000, 60.0).losses for s in (step, [whole]))
    assert split == pytest.approx(alone, rel=1e-5)


def test_a_text_of_chance_is_not_learnt() -> None:
    generator = np.random.default_rng(0)
    texts = [generator.integers(0, 16, (2, 8, 12), dtype=np.int32) for _ in range(80)]
    losses = train_reference([[Batch(*pair)] for pair in texts], 16, 6_000, 60.0).losses
    assert losses[-1] > 0.95 * math.log(16)


def test_without_enough_time_fewer_steps_are_made_and_the_schedule_is_theirs() -> None:
    # Each look at the clock is a second later: there is time for some hundred of them.
    ticks = itertools.count()
    found = train_reference(steps(2000, rows=1, width=4), 16, 1_500, 300.0, lambda: next(ticks))
    assert MIN_TRIED < len(found.losses) < 300
    assert next(ticks) < 310


def test_a_rate_that_diverges_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_run, "RATES", (1e30, 1e-2, 1e-9))
    found = train_reference(steps(60), 16, 6_000, seconds=60.0)
    assert found.rate == 1e-2
    assert all(map(math.isfinite, found.losses))
