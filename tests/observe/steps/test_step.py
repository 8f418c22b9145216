"""A step in the making."""

from __future__ import annotations

from typing import NamedTuple

import torch

from lossleuth.observe.steps.step import MAX_READS, StepWindow, integer_tensors


class Seen(NamedTuple):
    count: int
    hash: int = 0


def test_of_the_integers_looked_up_in_a_micro_batch_the_longest_are_the_tokens() -> None:
    window = StepWindow(0.0)
    window.lookups += [Seen(3), Seen(9)]
    window.end_micro_batch()
    window.end_micro_batch()
    window.lookups += [Seen(4)]
    window.end_micro_batch()
    assert window.micro_batches == [Seen(9), Seen(4)]


def test_a_batch_is_told_from_others_by_all_that_was_looked_up() -> None:
    """Distances between positions, which are the same in every step, are the longest here."""
    window = StepWindow(0.0)
    for tokens in (5, 6, 5):
        window.lookups += [Seen(3, tokens), Seen(9, 17), Seen(3, tokens)]
        window.end_micro_batch()
    first, second, third = window.micro_batches
    assert first == third != second
    assert {seen.count for seen in window.micro_batches} == {9}


def test_what_is_drawn_for_each_text_hides_no_batch_that_is_repeated() -> None:
    """As many numbers as texts, where there are more targets."""
    window = StepWindow(0.0)
    for turn in range(1, 4):
        window.lookups += [Seen(6, 5), Seen(2, turn)]
        window.supervised = 6 * turn
        window.end_micro_batch()
    assert len({seen.hash for seen in window.micro_batches}) == 1


def test_a_step_ends_at_an_update_made_or_skipped() -> None:
    window = StepWindow(0.0)
    assert window.empty
    window.backwards = 1
    assert not window.updated
    window.skipped_by.append("GradScaler")
    assert window.updated
    assert not window.empty


def test_reads_are_bounded() -> None:
    window = StepWindow(0.0)
    for number in range(1000):
        window.read(number, "train.py:1")
    assert len(window.reads) == MAX_READS


def test_whole_numbers_are_found_in_what_a_loader_gives() -> None:
    ids, floats = torch.arange(3), torch.ones(2)
    assert integer_tensors((ids, floats))[0] is ids
    assert integer_tensors({"a": [ids], "b": torch.tensor(1)})[0] is ids
    assert integer_tensors("text") == []
