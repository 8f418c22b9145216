"""A tape that waits for a forward pass."""

from __future__ import annotations

import torch

from lossleuth.tape.capture.from_first_grad import PatientCapture


def test_an_update_by_hand_is_not_recorded_and_the_forward_pass_is() -> None:
    weight = torch.ones(3, requires_grad=True)
    gradient = torch.full((3,), 0.5)
    tokens = torch.arange(3)
    with PatientCapture() as capture:
        weight.data += -0.1 * gradient
        with torch.no_grad():
            weight -= 0.1 * gradient
            weight * 2
        chosen = tokens[:2]
        assert capture.waiting and not capture.tape.operations
        loss = weight[chosen].sum()
    assert [op.name for op in capture.tape.operations] == ["index", "sum"]
    # Values are those after the update.
    (number,) = (i for i, leaf in capture.tape.leaves.items() if leaf is weight)
    assert torch.allclose(capture.tape.value(number), torch.full((3,), 0.9))
    assert loss.item() == weight[:2].sum().item()


def test_what_is_ours_does_not_end_the_waiting() -> None:
    weight = torch.ones(3, requires_grad=True)
    with PatientCapture() as capture:
        with capture.own.work():
            weight.sum()
        assert capture.waiting and not capture.tape.operations
