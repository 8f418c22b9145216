"""The backward of functions outside torch, against differences of their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from outside_kernels import FAULTS, compiled, in_c, in_numpy
from steps import SmallModel, recorded_step
from torch import Tensor

from lossleuth.causes.gradient.wrong_backward import MIN_TIMES_FLOOR
from lossleuth.findings.gradient import CustomFunction
from lossleuth.gradcheck.problems import given_problem
from lossleuth.probes.gradient.custom_function import custom_functions, trusted_calls
from lossleuth.probes.gradient.gradient_truth import gradient_truth
from lossleuth.probes.gradient.outside_gradient import MAX_ROWS, _directions
from lossleuth.tape.replay.link_outside import link_outside
from lossleuth.tape.window import Window

Make = Callable[[str], tuple[Any, Any]]


@pytest.fixture(params=["ctypes", "numpy"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "numpy":
        return in_numpy
    path = compiled(tmp_path)
    return lambda fault: in_c(path, fault)


def step(function: Callable[[Tensor], Tensor]) -> Window:
    def plant(model: SmallModel) -> None:
        model.between = function

    window = recorded_step(change=plant)
    link_outside(window.tape)
    return window


def attending(attention: Any) -> Callable[[Tensor], Tensor]:
    return lambda h: h + attention(h, h.flip(-1), h * 2)


def on_few(tanh: Any) -> Callable[[Tensor], Tensor]:
    """The function on many numbers and on few of them."""

    def apply(h: Tensor) -> Tensor:
        return tanh(h) + tanh(h.mean((0, 1), keepdim=True))

    return apply


def is_wrong(found: CustomFunction) -> bool:
    assert found.untested is None, found.untested
    return found.error > MIN_TIMES_FLOOR * found.floor


@pytest.mark.parametrize("fault", ["tail", "row", "queries", "small"])
def test_what_is_left_out_or_turned_is_found(make: Make, fault: str) -> None:
    tanh, attention = make(fault)
    functions = {"queries": attending(attention), "small": on_few(tanh)}
    window = step(functions.get(fault, tanh))
    worst = custom_functions(window)[0]
    assert is_wrong(worst)
    assert worst.error == pytest.approx({"small": 2.0}.get(fault, 1.0), rel=0.05)
    assert worst.outside
    (truth,) = [gradient_truth(window, run) for run in window.backwards]
    hidden = [row for row in truth.parameters if row.untested]
    assert hidden and all("computes outside torch" in str(row.untested) for row in hidden)
    if fault == "small":
        # On many numbers it is right.
        assert sorted(map(is_wrong, custom_functions(window))) == [False, True]


def test_where_it_was_measured_is_told(make: Make) -> None:
    tail = custom_functions(step(make("tail")[0]))[0]
    assert tail.part == "1 of 16 columns (the first is column 15) of input 1, which it gives 0"
    row = custom_functions(step(make("row")[0]))[0]
    assert row.part == "1 of 24 rows (the first is row 3) of input 1, which it gives 0"
    queries = custom_functions(step(attending(make("queries")[1])))[0]
    assert "12 of 24 rows (the first is row 4) of input" in str(queries.part)


@pytest.mark.parametrize("of", ["tanh", "attention", "few"])
def test_a_right_backward_is_quiet_and_what_is_behind_it_is_judged(make: Make, of: str) -> None:
    tanh, attention = make("")
    functions = {"tanh": tanh, "attention": attending(attention), "few": on_few(tanh)}
    window = step(functions[of])
    found = custom_functions(window)
    assert found and not any(map(is_wrong, found))
    assert max(f.error for f in found) < 1e-2
    assert trusted_calls(window) == set(range(len(found)))
    (truth,) = [gradient_truth(window, run) for run in window.backwards]
    assert not [row for row in truth.parameters if row.untested]
    assert truth.error < 1e-5


class MeanInNumpy(torch.autograd.Function):
    """A mean cross-entropy over many rows, rounded to float32: each row moves it by very little."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor) -> Tensor:
        given = scores.detach().numpy()
        powers = np.exp(given - given.max(1, keepdims=True))
        ctx.shares = powers / powers.sum(1, keepdims=True)
        ctx.targets = targets.numpy()
        rows = np.arange(len(given))
        nll = -np.log(ctx.shares[rows, ctx.targets])
        return scores.new_tensor(float(nll.mean(dtype=np.float64)))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        found = ctx.shares.copy()
        found[np.arange(len(found)), ctx.targets] -= 1
        found[:, -3:] *= ctx.kept_in_tail
        return torch.from_numpy(found * float(gradient) / len(found)).float(), None


class Tailless(MeanInNumpy):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor) -> Tensor:
        ctx.kept_in_tail = 0.0
        return MeanInNumpy.forward(ctx, scores, targets)


class Whole(MeanInNumpy):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor) -> Tensor:
        ctx.kept_in_tail = 1.0
        return MeanInNumpy.forward(ctx, scores, targets)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", [Whole, Tailless])
def test_a_rounded_mean_over_many_rows_is_judged_by_what_rounding_leaves_of_it(
    loss: Any, seed: int
) -> None:
    def of_many(model: Any, tokens: Tensor) -> Tensor:
        rows = tokens.repeat(8, 1)
        given: Tensor = loss.apply(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        return given

    window = recorded_step(of_many, seed=seed)
    link_outside(window.tape)
    (found,) = custom_functions(window)
    wrong = found.untested is None and found.error > MIN_TIMES_FLOOR * found.floor
    assert wrong is (loss is Tailless), found


def test_only_a_library_that_the_backward_calls_is_named(tmp_path: Path) -> None:
    path = compiled(tmp_path)
    assert custom_functions(step(in_c(path)[0]))[0].library == path
    assert custom_functions(step(in_numpy()[0]))[0].library is None


def test_every_small_part_has_a_direction_of_its_own() -> None:
    x, bias = np.ones((2, 40, 6)), np.ones(5)
    x[1, 3, 2] = 0
    problem = given_problem(lambda x, b: float(x.sum()), [x, bias], {"x": x, "bias": bias})
    named = dict(_directions(problem))
    assert next(iter(named)) == ""
    touched = {name: [np.count_nonzero(d) for d in parts] for name, parts in named.items()}
    assert touched[""] == [480, 5]
    assert touched["1 of 480 entries of x, which it gives 0"] == [1, 0]
    assert touched["all of bias"] == [0, 5]
    assert touched["the last of 6 columns of x"] == [80, 0]
    assert touched["the last of 40 entries along axis 1 of x"] == [12, 0]
    assert touched["the last of 5 columns of bias"] == [0, 1]
    rows = [count for name, count in touched.items() if name.startswith("row ")]
    assert rows == [[6, 0]] * MAX_ROWS


def test_all_faults_of_the_support_are_tried_somewhere() -> None:
    assert set(FAULTS) == {"tail", "row", "queries", "small", "leak"}
    assert torch.equal(in_numpy()[0](torch.zeros(1, 2, 3)), torch.zeros(1, 2, 3))
