"""The file of what each step trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lossleuth.record.kept_batches import KeptBatches, kept_steps

TOKENS = np.array([[3, 1, 4], [1, 5, 9]])
TARGETS = np.array([1, 4, -100])


def write(path: Path, steps: int, most: int = 1 << 20) -> None:
    kept = KeptBatches(path, most)
    for step in range(steps):
        kept.lookup(TOKENS + step, step)
        kept.lookup(TOKENS + step, step)
        kept.targets(TARGETS, -100, 11)
        kept.end_micro_batch()
        kept.lookup(TOKENS, 99)
        kept.end_micro_batch()
        kept.end_step(step)
    kept.close()


def test_what_was_kept_is_read_again_step_by_step(tmp_path: Path) -> None:
    write(tmp_path / "batches", 2)
    first, second = kept_steps(tmp_path / "batches")
    assert (first.step, second.step) == (0, 1)
    one, other = second.micro_batches
    # What several tables are asked for is kept once.
    assert [rows.tolist() for rows in one.lookups] == [(TOKENS + 1).tolist()]
    (targets,) = one.targets
    assert (targets.values.tolist(), targets.ignored, targets.classes) == ([[1, 4, -100]], -100, 11)
    assert [rows.tolist() for rows in other.lookups] == [TOKENS.tolist()]


def test_without_a_file_there_are_no_steps(tmp_path: Path) -> None:
    assert list(kept_steps(tmp_path / "none")) == []


def test_a_step_that_is_not_there_as_a_whole_is_none(tmp_path: Path) -> None:
    path = tmp_path / "batches"
    write(path, 3)
    data = path.read_bytes()
    for cut in range(1, len(data) // 3, 7):
        path.write_bytes(data[:-cut])
        assert [kept.step for kept in kept_steps(path)] == [0, 1]


def test_the_room_is_bounded_and_what_fits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "batches"
    write(path, 100, most=1000)
    assert path.stat().st_size < 1100
    steps = [kept.step for kept in kept_steps(path)]
    assert steps == list(range(len(steps))) and 0 < len(steps) < 10


def test_a_file_that_cannot_be_written_hurts_nobody(tmp_path: Path) -> None:
    write(tmp_path / "no folder" / "batches", 2)
    assert list(kept_steps(tmp_path / "no folder" / "batches")) == []


def test_numbers_that_are_no_tokens_are_left_out(tmp_path: Path) -> None:
    kept = KeptBatches(tmp_path / "batches")
    kept.lookup(np.array([[1 << 40, 2]]), 1)
    kept.lookup(TOKENS, 2)
    kept.end_micro_batch()
    kept.end_step(0)
    kept.close()
    ((micro_batch,),) = [kept.micro_batches for kept in kept_steps(tmp_path / "batches")]
    assert [rows.shape for rows in micro_batch.lookups] == [(2, 3)]
