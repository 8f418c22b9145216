"""The figures of the hand-written stack: exact with one layer, wrong from two on."""

from __future__ import annotations

import pytest
import torch
from faults import gradient_truth, network, oracle_scores
from torch import Tensor

from lossleuth.labs.cases.text import SAMPLE, encode
from lossleuth.labs.cases.windows import Windows


def batch() -> Tensor:
    return Windows(encode(SAMPLE)).batch(0)[0]


def test_the_forward_is_that_of_the_oracle() -> None:
    model = network([])
    torch.testing.assert_close(model(batch()), oracle_scores(model, batch()))


def test_one_layer_is_exact() -> None:
    assert gradient_truth([], layers=1).error < 1e-12


@pytest.mark.parametrize("layers", [2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_two_layers_and_more_are_wrong(layers: int, seed: int) -> None:
    found = gradient_truth([], layers=layers, seed=seed)
    assert 0.5 < found.error < 1.0
    assert 0.6 < found.cosine < 0.9


def test_four_layers_err_by_nine_tenths() -> None:
    found = gradient_truth([])
    assert found.error == pytest.approx(0.88, abs=0.03)
    assert found.cosine == pytest.approx(0.73, abs=0.03)


@pytest.mark.parametrize(("layers", "exact"), [(1, True), (2, False), (3, True), (4, False)])
def test_the_last_norm_is_wrong_when_the_number_of_layers_is_even(layers: int, exact: bool) -> None:
    error = gradient_truth(["backward"], layers=layers).error
    assert (error < 1e-12) is exact
    assert exact or 0.05 < error < 0.3


def test_rows_see_row_0() -> None:
    model, tokens = network([]), batch()
    changed = tokens.clone()
    changed[0] = 33 - tokens[0]
    moved = (model(changed) - model(tokens)).abs()[1:]
    assert float(moved.detach().max()) > 0.01


def test_positions_see_later_ones() -> None:
    model, tokens = network([]), batch()
    changed = tokens.clone()
    changed[:, 20] = 33 - tokens[:, 20]
    moved = (model(changed) - model(tokens)).abs()[:, :20]
    assert float(moved.detach().max()) > 0.001
