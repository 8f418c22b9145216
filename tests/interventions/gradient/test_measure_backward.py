"""Custom functions differentiated by their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forward_kernels
import pytest
import torch
from changed_runs import Ran, WrongTanh, sgd, trained, with_changes
from outside_kernels import compiled, in_c, in_numpy
from steps import SmallModel, recorded_step
from torch import Tensor
from torch.autograd import Function

from lossleuth.interventions.gradient import measure_backward
from lossleuth.interventions.gradient.measure_backward import MeasureBackward, _axes_apart
from lossleuth.interventions.intervention import Intervention
from lossleuth.observe.session import Session
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.model.leaks import leaks
from lossleuth.tape.replay.link_outside import link_outside
from lossleuth.torch_internals import APPLIED


def gradients(intervention: Intervention, run: Any, *inputs: Tensor) -> list[Tensor]:
    """What the inputs get of a run under an intervention."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    with_changes(lambda: run(*leaves).cos().sum().backward(), intervention)
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize("where", ["ctypes", "numpy"])
@pytest.mark.parametrize("fault", ["tail", "row", "queries", ""])
def test_the_true_gradient_takes_the_place_of_a_wrong_one(
    where: str, fault: str, tmp_path: Path
) -> None:
    # Bound before, as in a script that is forked after it has loaded everything.
    tanh, attention = in_numpy(fault) if where == "numpy" else in_c(compiled(tmp_path), fault)
    x = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(0))
    measured = MeasureBackward(f"{tanh.__self__.__name__},{attention.__self__.__name__}")

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tanh(attention(q, k, v))

    found = gradients(measured, run, x, x.flip(0), x + 1)
    wanted = gradients(
        MeasureBackward("none"), lambda *qkv: torch.tanh(attended(*qkv)), x, x.flip(0), x + 1
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-3 * float(other.abs().max()))


def with_function(function: Any) -> Ran:
    return trained(make=sgd, plant=lambda net: setattr(net, "between", lambda x: function.apply(x)))


def test_a_wrong_backward_is_not_asked() -> None:
    right = trained(make=sgd)
    assert with_function(WrongTanh).distance(right) > 1e-2
    cured = with_changes(lambda: with_function(WrongTanh), MeasureBackward("WrongTanh"))
    assert cured.distance(right) < 1e-3


def test_other_functions_are_left_alone() -> None:
    plain = with_function(WrongTanh)
    changed = with_changes(lambda: with_function(WrongTanh), MeasureBackward("Tanh,Wrong"))
    assert changed.is_exactly(plain)


def test_what_would_take_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_backward, "MAX_VALUES", 1)
    with pytest.raises(RuntimeError, match="would take 2 values, not 1"):
        with_changes(lambda: with_function(WrongTanh), MeasureBackward("WrongTanh"))


def test_parts_that_act_apart_are_found() -> None:
    x = torch.randn(3, 5, 4)
    apart = {
        "entries": lambda x: [x.exp()],
        "rows": lambda x: [x.softmax(-1)],
        "texts": lambda x: [x.cumsum(1)],
        "backwards": lambda x: [x.flip(1).cumsum(1)],
        "nothing": lambda x: [x.mean(0, keepdim=True) + x],
        "another shape": lambda x: [x.sum()],
    }
    found = {name: _axes_apart(function, x) for name, function in apart.items()}
    assert list(found.values()) == [3, 2, 1, 1, 0, 0]


def test_torch_is_left_as_it_was() -> None:
    before = vars(Function)["apply"], APPLIED.apply
    with_changes(lambda: with_function(WrongTanh), MeasureBackward("WrongTanh"))
    assert (vars(Function)["apply"], APPLIED.apply) == before
    assert "apply" not in vars(APPLIED)


def test_a_recording_still_follows_what_goes_through_the_function() -> None:
    linear, weight = forward_kernels.in_numpy().linear, torch.randn(16, 16) / 4
    session = Session()
    MeasureBackward("LinearInNumpy").install(session.replace)

    def plant(model: SmallModel) -> None:
        model.between = lambda h: linear(h, weight)

    try:
        window = recorded_step(change=plant)
    finally:
        session.close()
    link_outside(window.tape)
    with Analysis(window) as analysis:
        assert (leaks(window, analysis.roles).own or 0.0) > 0.1
