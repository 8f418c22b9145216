"""Founding case 3: the reduction drops entries; rounding is innocent."""

from __future__ import annotations

import pytest
import torch
from faults import asked, mean

from lossleuth.gradcheck.loss_check import check_loss
from lossleuth.labs.cases import kahan
from lossleuth.labs.cases.kahan import BlockLoss, PaddedBlockLoss, block_sum, padded_block_sum


@pytest.mark.parametrize(("size", "dropped"), [(32, 0), (34, 2), (100, 36), (1000, 488), (1024, 0)])
def test_entries_are_dropped_unless_the_size_is_a_power_of_two(size: int, dropped: int) -> None:
    ones = torch.ones(1, size, dtype=torch.float64)
    assert size - float(block_sum(ones)) == dropped
    assert float(padded_block_sum(ones)) == size


def test_the_gradient_breaks_at_the_same_sizes() -> None:
    found = {check.size: bool(check) for check in check_loss(BlockLoss.apply)}
    powers = {size: size & (size - 1) == 0 for size in found}
    assert found == powers
    assert all(check_loss(PaddedBlockLoss.apply))


def test_the_error_is_in_the_backward_alone() -> None:
    scores = torch.randn(6, 34, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 34, (6,))
    loss = BlockLoss.apply(scores, targets)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(scores, targets))
    (given,) = torch.autograd.grad(loss, scores)
    assert bool((given.sum(-1) > 1e-3).all())


@pytest.mark.parametrize(("size", "bound"), [(34, 4e-7), (50_000, 9e-6)])
def test_a_plain_float32_sum_errs_by_next_to_nothing(size: int, bound: float) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(20, size, generator=generator).exp()
    # One after the other, as the slowest of loops would.
    plain = rows.cumsum(1)[:, -1].double() if size > 100 else _in_order(rows)
    exact = rows.double().sum(1)
    assert float(((plain - exact) / exact).abs().max()) < bound


def _in_order(rows: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(len(rows))
    for column in rows.T:
        total = total + column
    return total.double()


def test_the_difference_quotient_is_what_errs_at_small_steps() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1, 34, generator=generator, dtype=torch.float64)
    target = torch.tensor([3])

    def error(epsilon: float, dtype: torch.dtype) -> float:
        def loss(move: float) -> float:
            moved = scores.to(dtype).clone()
            moved[0, 7] += move
            return PaddedBlockLoss.apply(moved, target).item()

        true = float(scores.softmax(-1)[0, 7])
        return abs((loss(epsilon) - loss(-epsilon)) / (2 * epsilon) / true - 1)

    assert error(1e-5, torch.float32) > 0.1
    assert error(1e-2, torch.float32) < 1e-3
    assert error(1e-5, torch.float64) < 1e-5


def test_the_log_shows_what_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    kahan.train(asked(20))
    assert "lost 0.00%" not in capsys.readouterr().out
    kahan.train(asked(20, "reduction"))
    assert "0.00%" in capsys.readouterr().out


@pytest.mark.slow
def test_the_repaired_kernel_learns_more() -> None:
    faulty, repaired = kahan.train(asked(400)), kahan.train(asked(400, "reduction"))
    assert mean(faulty[-40:]) - mean(repaired[-40:]) > 0.05
