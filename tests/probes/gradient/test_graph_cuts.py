"""GraphCuts by line."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from steps import WIDTH, SmallModel, recorded_step, shifted_loss
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.gradient import GraphCuts
from lossleuth.probes.gradient.graph_cuts import graph_cuts
from lossleuth.tape.capture.recorder import Recorder


def by_detach(h: Tensor) -> Tensor:
    return h.detach() + 0


def by_data(h: Tensor) -> Tensor:
    return h.data * 1.0


def by_no_grad(h: Tensor) -> Tensor:
    with torch.no_grad():
        return h * 1.0


def found_with(between: Callable[[Tensor], Tensor]) -> GraphCuts:
    def plant(model: SmallModel) -> None:
        model.between = between

    window = recorded_step(change=plant)
    return graph_cuts(window, window.backwards[0])


@pytest.mark.parametrize("cut", [by_detach, by_data, by_no_grad])
def test_a_cut_is_found_at_its_line_with_what_it_starves(cut: Callable[[Tensor], Tensor]) -> None:
    found = found_with(cut)
    assert found.untested is None
    assert "qkv.weight" in found.starved
    assert "head.weight" not in (*found.starved, *found.changed)
    assert found.lost_share is not None
    assert found.lost_share > 0.01
    lines, first = inspect.getsourcelines(cut)
    assert any(
        place.file == __file__ and place.line and first <= place.line < first + len(lines)
        for place in found.places
    )


def test_a_program_without_cuts_has_none() -> None:
    found = found_with(lambda h: h)
    assert found == GraphCuts(0.0, (), (), ())


def test_a_number_that_is_only_reported_is_no_cut() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        value = shifted_loss(model, tokens)
        _ = (value.detach() * 2).item()
        return value

    window = recorded_step(loss)
    assert graph_cuts(window, window.backwards[0]).places == ()


@pytest.mark.parametrize("cut", [True, False])
def test_what_another_backward_pass_trains_is_not_starved(*, cut: bool) -> None:
    """A probe on detached features, beside the loss that the features are made for."""
    body, head, probe = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)
    x, aims = torch.randn(8, WIDTH), torch.randint(0, 4, (8,))
    modules = nn.ModuleList([body, head, probe])
    optimizer = torch.optim.SGD(modules.parameters(), lr=0.1)
    recorder = Recorder(1)
    recorder.start()
    try:
        features = body(x)
        for layer, given in ((head, features), (probe, features.detach() if cut else features)):
            loss = F.cross_entropy(layer(given), aims)
            run = recorder.begin_backward([loss], [None])
            loss.backward(retain_graph=True)
            recorder.end_backward(run)
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
    finally:
        recorder.stop()
    window = recorder.window
    found = graph_cuts(window, window.backwards[1])
    assert (found.starved, len(found.changed)) == ((), 2 if cut else 0)
