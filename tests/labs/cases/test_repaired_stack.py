"""Each repair removes its fault and no other."""

from __future__ import annotations

import pytest
import torch
from faults import gradient_truth, network

from lossleuth.labs.cases.repaired_stack import REPAIRS
from lossleuth.labs.cases.text import SAMPLE, encode
from lossleuth.labs.cases.windows import Windows


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_repaired_gradient_is_exact(layers: int) -> None:
    assert gradient_truth(REPAIRS, layers=layers).error < 1e-12


def test_both_repairs_of_the_backward_are_needed() -> None:
    assert gradient_truth(["backward", "norm"]).error < 1e-12
    assert gradient_truth(["backward"]).error > 0.05
    assert gradient_truth(["norm"]).error > 0.5


def test_mask_and_batch_repairs_leave_the_backward_wrong() -> None:
    assert gradient_truth(["batch", "mask"]).error > 0.3


@pytest.mark.parametrize(
    ("repairs", "rows", "past"),
    [(["batch"], True, False), (["batch", "mask"], True, True), (["mask"], False, True)],
)
def test_what_still_leaks(repairs: list[str], rows: bool, past: bool) -> None:
    model = network(repairs)
    tokens, _ = Windows(encode(SAMPLE)).batch(0)
    first, later = tokens.clone(), tokens.clone()
    first[0] = 33 - tokens[0]
    later[:, 20] = 33 - tokens[:, 20]
    with torch.no_grad():
        before = model(tokens)
        other_rows = float((model(first) - before)[1:].abs().max())
        earlier = float((model(later) - before)[:, :20].abs().max())
    assert (other_rows < 1e-12, earlier < 1e-12) == (rows, past)
