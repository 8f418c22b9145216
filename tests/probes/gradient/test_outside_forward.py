"""Functions outside torch whose forward is wrong: the backward is not its derivative, or it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forward_kernels import FAULTS, Kernels, compiled, in_c, in_numpy
from steps import SmallModel, recorded_step
from torch import Tensor
from torch.nn import functional as F

from lossleuth.causes.gradient.wrong_backward import MIN_TIMES_FLOOR
from lossleuth.findings.gradient import CustomFunction
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.gradient.custom_function import custom_functions
from lossleuth.probes.model.leaks import leaks
from lossleuth.tape.replay.link_outside import link_outside

Make = Callable[[str, bool], Kernels]
OF = ("linear", "softmax", "attention")
# How many columns a result or a sum has, and how many of them a fault leaves out.
COLUMNS = {"linear": "1 of 16", "softmax": "4 of 9", "attention": "1 of 16"}
PLACES = {
    "tail": "{columns} columns (the first is column {first}) of result 1, which no input moves",
    "row": "1 of 24 rows (the first is row 3) of result 1, which no input moves",
    "queries": "12 of 24 rows (the first is row 4) of result 1, which no input moves",
}


@pytest.fixture(params=["ctypes", "numpy"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "numpy":
        return lambda fault, consistent: in_numpy(fault, consistent=consistent)
    path = compiled(tmp_path)
    return lambda fault, consistent: in_c(path, fault, consistent=consistent)


def found_of(kernels: Kernels, of: str, fault: str) -> list[CustomFunction]:
    """What is found of a kernel in the middle of a model; for `small`, on few numbers too."""
    weight = torch.randn(16, 16, generator=torch.Generator().manual_seed(2)) / 4
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "linear": lambda h: kernels.linear(h, weight),
        # 9 columns: one of many would hardly be seen for rounding.
        "softmax": lambda h: F.pad(h[..., :9] * kernels.softmax(3 * h[..., :9]), (0, 7)),
        "attention": lambda h: kernels.attention(2 * h, 2 * h.flip(-1), h * 2),
    }
    function = functions[of]

    def between(h: Tensor) -> Tensor:
        few = function(h[:1, :3]).mean() if fault == "small" else 0.0
        return h + function(h) + few

    def plant(model: SmallModel) -> None:
        model.between = between

    window = recorded_step(change=plant)
    link_outside(window.tape)
    return custom_functions(window)


def is_wrong(found: CustomFunction) -> bool:
    assert found.untested is None, found.untested
    return found.error > MIN_TIMES_FLOOR * found.floor


@pytest.mark.parametrize("of", OF)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_forward_that_is_not_what_its_backward_is_of_is_found(
    make: Make, fault: str, of: str
) -> None:
    worst = found_of(make(fault, False), of, fault)[0]
    assert is_wrong(worst)
    assert worst.outside and worst.name.lower().startswith(of)
    if fault in PLACES:
        first = 5 if of == "softmax" else 15
        assert worst.part == PLACES[fault].format(columns=COLUMNS[of], first=first)
        assert worst.error == pytest.approx(1.0, rel=0.01)
    if fault == "inner" and of != "softmax":
        assert worst.part == "the last of 16 columns of input 1"
    if fault == "small":
        assert worst.error == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("of", OF)
@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_backward_that_is_the_derivative_of_its_forward_is_quiet(
    make: Make, fault: str, of: str
) -> None:
    found = found_of(make(fault, True), of, fault)
    assert len(found) == 1 + (fault == "small")
    assert not any(map(is_wrong, found))


def test_a_function_inside_another_blocks_what_is_said_of_tokens(make: Make) -> None:
    """A replay cannot run it again: that changed tokens move nothing is no finding."""
    linear, weight = make("", False).linear, torch.randn(16, 16) / 4

    class Around(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            made: Tensor = linear(x, weight)
            return made

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient @ weight

    def plant(model: SmallModel) -> None:
        model.between = Around.apply

    window = recorded_step(change=plant)
    link_outside(window.tape)
    with Analysis(window) as analysis:
        found = leaks(window, analysis.roles)
    assert found.untested is not None or (found.own or 0.0) > 0.1
