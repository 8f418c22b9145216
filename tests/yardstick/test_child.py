"""The process that makes a yardstick."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lossleuth.record.kept_batches import KeptBatches
from lossleuth.types.plain import from_plain
from lossleuth.types.yardstick import Yardstick
from lossleuth.yardstick.child import mixture_losses, understood, yardstick
from lossleuth.yardstick.order import Order
from lossleuth.yardstick.supervised_batches import Batch

STEPS = 60


def batches(path: Path, *, shift: int = 1, seen: bool = True) -> Order:
    """The file of a run that counts in a circle of 8."""
    kept = KeptBatches(path)
    for step in range(STEPS):
        text = (np.arange(11) + np.arange(4)[:, None] * 3 + step) % 8
        kept.lookup(text[:, :9], step)
        if seen:
            kept.targets(text[:, shift : 9 + shift], -100, 8)
        kept.end_micro_batch()
        kept.end_step(step)
    kept.close()
    return Order(str(path), 0, STEPS - 1, trained=2_000, vocabulary=8, until=time.time() + 60)


def test_both_references_are_scored_at_every_step(tmp_path: Path) -> None:
    found = yardstick(batches(tmp_path / "batches"))
    assert found.why_not is None
    assert list(found.steps) == list(found.mixture_steps) == list(range(STEPS))
    assert found.losses[0] > 1.9 and found.losses[-1] < 1.0
    assert found.mixture[0] > 2.0 and found.mixture[-1] < 0.1
    assert set(found.supervised) == {36}
    assert (found.vocabulary, found.planned, found.trained) == (8, STEPS, 2_000)


def test_a_later_phase_is_counted_from_its_own_beginning(tmp_path: Path) -> None:
    order = replace(batches(tmp_path / "batches"), first=40, last=49)
    known = understood(order)
    assert not isinstance(known, str)
    assert list(known) == list(range(10))


@pytest.mark.parametrize(
    ("shift", "seen", "supervised", "words"),
    [
        (2, True, {}, "which token each target follows is known in 0 of 60 steps"),
        # A loss takes more targets than count, or nobody knows how many do.
        (1, True, {0: 18, 1: 18}, "other targets count than the next tokens"),
        (1, False, {0: 18, 1: 18}, "other targets count than the next tokens"),
        (1, False, {}, "other targets count than the next tokens"),
    ],
)
def test_what_is_not_a_next_token_has_no_yardstick(
    tmp_path: Path, shift: int, seen: bool, supervised: dict[int, int], words: str
) -> None:
    order = batches(tmp_path / "batches", shift=shift, seen=seen)
    found = yardstick(replace(order, supervised=supervised))
    assert found.why_not is not None and found.why_not.startswith(words)


def test_targets_that_no_loss_was_seen_to_take_are_the_next_tokens(tmp_path: Path) -> None:
    order = batches(tmp_path / "batches", seen=False)
    known = understood(replace(order, supervised={0: 36, 4: 36}))
    assert not isinstance(known, str)
    assert {batch.count for step in known.values() for batch in step} == {32}


def test_without_batches_there_is_none(tmp_path: Path) -> None:
    order = Order(str(tmp_path / "none"), 0, 9, 2_000, 8, time.time() + 9)
    assert yardstick(order) == Yardstick("its batches were not kept")


def test_the_mixture_stops_where_it_would_take_too_long() -> None:
    step = [Batch(np.ones((2, 5), np.int32), np.ones((2, 5), np.int32))]
    assert len(mixture_losses([step] * 9, 8, most=55)) == 5


def test_as_a_process_it_prints_what_it_has_found(tmp_path: Path) -> None:
    order = replace(batches(tmp_path / "batches", shift=2))
    done = subprocess.run(
        [sys.executable, "-m", "lossleuth.yardstick.child", order.text],
        capture_output=True,
        text=True,
        check=True,
    )
    assert from_plain(Yardstick, json.loads(done.stdout)) == yardstick(order)
