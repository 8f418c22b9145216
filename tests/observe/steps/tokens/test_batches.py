"""What a step trains on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lossleuth.observe.steps.step import StepWindow
from lossleuth.observe.steps.tokens import batches as looked_at
from lossleuth.observe.steps.tokens.batches import MAX_WAITING, Batches
from lossleuth.record.kept_batches import KeptBatches, kept_steps


def test_tokens_are_looked_at_when_asked_and_positions_are_not_tokens() -> None:
    batches, window = Batches(), StepWindow(0.0)
    batches.looked_up(torch.arange(8))
    batches.looked_up(torch.tensor([[3, 1, 4], [1, 5, 9]]))
    batches.compared(torch.zeros(3, 11), torch.tensor([1, -100, 2]), -100)
    assert not window.lookups
    batches.look(window)
    assert [seen.count for seen in window.lookups] == [6]
    assert (window.supervised, window.classes) == (2, 11)
    batches.look(window)
    assert len(window.lookups) == 1


@pytest.mark.parametrize(("is_mean", "sums"), [(True, 0), (False, 1)])
def test_a_mean_over_no_target_counts_and_a_sum_adds_nothing(*, is_mean: bool, sums: int) -> None:
    batches, window = Batches(), StepWindow(0.0)
    for targets in ([1, 2, 3], [-100, -100, -100]):
        batches.compared(torch.zeros(3, 11), torch.tensor(targets), -100, is_mean=is_mean)
    batches.look(window)
    assert (window.supervised, window.unsupervised, window.empty_sums) == (3, 1, sums)


def test_a_tensor_that_was_changed_meanwhile_is_left_out() -> None:
    batches, window = Batches(), StepWindow(0.0)
    tokens, targets = torch.tensor([3, 1, 4]), torch.tensor([1, 2, 2])
    batches.looked_up(tokens)
    batches.compared(torch.zeros(3, 11), targets, -100)
    tokens.zero_()
    targets.zero_()
    batches.look(window)
    assert not window.lookups
    assert window.supervised is None


def test_what_a_loader_gives_counts_until_a_lookup_is_seen() -> None:
    batches, window = Batches(), StepWindow(0.0)
    batches.loaded({"ids": torch.tensor([7, 3])})
    batches.look(window)
    assert [seen.count for seen in window.lookups] == [2]
    batches.looked_up(torch.tensor([5, 9, 6]))
    batches.loaded({"ids": torch.tensor([7, 3])})
    batches.look(window)
    assert [seen.count for seen in window.lookups] == [2, 3]


def test_a_lookup_that_is_the_same_everywhere_is_none() -> None:
    batches, window = Batches(), StepWindow(0.0)
    batches.looked_up(torch.zeros(3, 4, dtype=torch.long))
    batches.look(window)
    assert not window.lookups


def test_few_tensors_are_kept_alive() -> None:
    batches = Batches()
    answers = [batches.looked_up(torch.tensor([5])) for _ in range(MAX_WAITING + 1)]
    assert answers == [False] * MAX_WAITING + [True]


def test_tokens_inside_a_transform_of_torch_func_are_seen() -> None:
    batches, window = Batches(), StepWindow(0.0)

    def loss(weight: torch.Tensor) -> torch.Tensor:
        batches.looked_up(torch.tensor([[3, 1, 4], [1, 5, 9]])[:, :-1])
        batches.look(window)
        return weight.sum()

    torch.func.grad(loss)(torch.ones(2))
    assert [seen.count for seen in window.lookups] == [4]


def test_what_a_step_trains_on_is_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "batches"
    batches, window = Batches(KeptBatches(path)), StepWindow(0.0)
    tokens = torch.tensor([[3, 1, 4], [1, 5, 9]])
    batches.looked_up(tokens)
    # Positions, and what all are alike in, are no tokens; the same is kept once.
    batches.looked_up(torch.arange(8))
    batches.looked_up(torch.zeros(2, 3, dtype=torch.long))
    batches.looked_up(tokens)
    batches.compared(torch.zeros(6, 11), torch.tensor([1, 4, -100, 5, 9, 2]), -100)
    batches.end_micro_batch(window)
    batches.end_step(7)
    batches.close()
    ((step, (micro_batch,)),) = [(s.step, s.micro_batches) for s in kept_steps(path)]
    assert step == 7
    assert [rows.tolist() for rows in micro_batch.lookups] == [tokens.tolist()]
    (targets,) = micro_batch.targets
    assert (targets.values.tolist(), targets.ignored, targets.classes) == (
        [[1, 4, -100, 5, 9, 2]],
        -100,
        11,
    )
    assert len(window.micro_batches) == 1


def test_a_tensor_without_numbers_ends_the_keeping_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no numbers")

    batches, window = Batches(KeptBatches(tmp_path / "batches")), StepWindow(0.0, False)
    batches.looked_up(torch.tensor([[3, 1, 4]]))
    batches.compared(torch.zeros(3, 11), torch.tensor([1, 4, 2]), -100)
    # Nothing else brings what lies in memory there.
    monkeypatch.setattr(looked_at, "MAX_RUNS", 0)
    monkeypatch.setattr(torch.Tensor, "cpu", refuse)
    batches.end_micro_batch(window)
    batches.end_step(0)
    assert len(window.micro_batches) == 1 and window.supervised == 3
    assert list(kept_steps(tmp_path / "batches")) == []
