"""The shuffled-teacher control."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lossleuth.reference.distil.assembly import assemble
from lossleuth.reference.distil.control import Control, compare, run_control
from lossleuth.reference.distil.loop import distil
from lossleuth.reference.distil.outputs import LogitsOnly
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.train.data import make_batch
from lossleuth.reference.train.evaluate import window_sums


def sums_of(settings: DistilSettings) -> np.ndarray:
    made = assemble(settings)
    data = made.prepared
    for _ in distil(
        made.student,
        made.optimizer,
        lambda k: make_batch(data.tokens, data.training, made.order.at(k)),
        made.objective,
    ):
        pass
    return window_sums(LogitsOnly(made.student), data.tokens, data.validation, batch=4)


def test_a_shuffled_teacher_is_worse_and_that_is_said(settings: DistilSettings) -> None:
    settings = replace(settings, steps=60, distil_weight=1.0, data_weight=0.0)
    found = run_control(settings, 60, sums_of(settings))
    assert found.transfers
    assert "knowledge is transferred" in found.sentence()


def test_a_distillation_that_has_no_teacher_transfers_nothing(settings: DistilSettings) -> None:
    settings = replace(settings, steps=20, distil_weight=0.0, data_weight=1.0)
    found = run_control(settings, 20, sums_of(settings))
    # Both students are the same to the last bit: nothing of the teacher is in them.
    assert found.loss == found.shuffled and found.standard_error == 0
    assert not found.transfers
    assert "this distillation transfers nothing" in found.sentence()


def test_the_error_is_of_the_pairs_and_not_of_the_texts() -> None:
    hard = np.array([10.0, 1.0, 5.0, 2.0])
    lengths = np.array([2, 2, 2, 2])
    found = compare(hard, hard + 0.5, lengths)
    assert found.standard_error < 1e-12 and found.transfers
    noisy = compare(hard, hard + np.array([2.0, -1.0, 1.0, 0.0]), lengths)
    assert not noisy.transfers


def test_a_better_shuffled_teacher_is_no_transfer() -> None:
    assert not Control(1.0, 0.5, 0.001).transfers
