"""Copies by ways that torch does not see."""

from __future__ import annotations

import pytest
import torch
from steps import SmallModel, recorded_step
from torch import Tensor

from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.replay import hidden_copies
from lossleuth.tape.replay.hidden_copies import link_copies
from lossleuth.tape.tape import Tape


def linked(between: object) -> Tape:
    def plant(model: SmallModel) -> None:
        model.between = between  # type: ignore[assignment]  # a function of tensors

    tape = recorded_step(change=plant).tape
    tape.copies.clear()
    tape.compared.clear()
    link_copies(tape)
    return tape


def through_numpy(h: Tensor) -> Tensor:
    return torch.from_numpy(h.detach().numpy().copy())


def through_lists(h: Tensor) -> Tensor:
    return torch.tensor(h.tolist())


def through_half(h: Tensor) -> Tensor:
    return torch.from_numpy(h.detach().double().numpy().copy()).float()


@pytest.mark.parametrize("way", [through_numpy, through_lists, through_half])
def test_a_round_trip_is_linked_to_what_it_is_a_copy_of(way: object) -> None:
    tape = linked(way)
    (copied,) = {tape.groups[source] for source in tape.copies.values()}
    assert tape.layouts[copied].shape == (3, 8, 16)
    assert copied not in tape.leaves


def test_a_sound_step_has_no_copies() -> None:
    assert linked(lambda h: h).copies == {}


def test_numbers_that_come_from_elsewhere_are_no_copies() -> None:
    noise = torch.randn(3, 8, 16, generator=torch.Generator().manual_seed(9))
    assert linked(lambda h: h + noise).copies == {}
    # Too few to tell, or all the same: such stand anywhere.
    assert linked(lambda h: h + torch.tensor(h.mean().item())).copies == {}
    assert linked(lambda h: h + torch.zeros(3, 8, 16)).copies == {}


def test_gradients_and_what_is_cleared_are_not_searched_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[int] = []
    monkeypatch.setattr(hidden_copies, "_source", lambda _tape, i, *_: searched.append(i))
    capture = Capture()
    weight = torch.randn(3, 4, requires_grad=True)
    old, kept = torch.randn(3, 4), torch.randn(3, 4)
    with capture:
        hidden = (weight * 2).exp()
        loss = hidden.sum()
        capture.pause()
        loss.backward()
        assert weight.grad is not None
        gradient = weight.grad.clone()
        capture.resume()
        old.zero_()
        number = capture.number_of(kept.add(1)) - 1
        weight.grad.mul_(0.5)
    link_copies(capture.tape, [gradient])
    assert searched == [number]
    searched.clear()
    capture.tape.compared.clear()
    link_copies(capture.tape)
    assert len(searched) == 2
