"""The passes around an optimizer's step in one call each, against the passes one by one."""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from needs import need_native
from optimizer_steps import (
    MADE,
    SIZES,
    Optimizer,
    check_both_ways,
    give_gradients,
    held,
    in_one_call,
    weights,
)
from torch import Tensor, nn

from lossleuth.native import library as native
from lossleuth.native.handles import handles
from lossleuth.native.optimizer_pass import OptimizerPass


@pytest.fixture(autouse=True)
def need_calls() -> None:
    need_native()
    if handles() is None:
        pytest.skip("the library was built without Python's headers")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MADE)
def test_both_ways_give_the_same_bits(name: str, dtype: torch.dtype) -> None:
    check_both_ways(MADE[name], dtype)


def test_a_gradient_that_is_not_there_is_absent() -> None:
    parameters = weights()
    optimizer = torch.optim.AdamW(parameters)
    give_gradients(parameters, 0)
    optimizer.step()
    parameters[2].grad = None
    found = in_one_call(OptimizerPass(parameters), optimizer)
    assert found is not None
    gradients = np.frombuffer(found[0]).reshape(len(SIZES), -1)[:, :5]
    assert np.isnan(gradients).all(axis=1).tolist() == [False, False, True, False]


class Wrapped(Tensor):
    """A tensor that may keep its values anywhere."""


def with_state(name: str, value: Any) -> Callable[[Optimizer], None]:
    def change(optimizer: Optimizer) -> None:
        optimizer.state[held(optimizer)[1]][name] = value

    return change


def with_setting(name: str, value: Any) -> Callable[[Optimizer], None]:
    def change(optimizer: Optimizer) -> None:
        optimizer.param_groups[0][name] = value

    return change


def with_more(optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["params"].append(nn.Parameter(torch.ones(2)))


def with_fewer(optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["params"].pop()


def with_another(optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["params"][1] = nn.Parameter(torch.ones(64))


def in_another_order(optimizer: Optimizer) -> None:
    optimizer.state = dict(reversed(list(optimizer.state.items())))


def with_a_view(optimizer: Optimizer) -> None:
    optimizer.state = ChainMap(dict(optimizer.state))  # type: ignore[assignment]  # on purpose


def without_a_state(optimizer: Optimizer) -> None:
    del optimizer.state[held(optimizer)[0]]


UNUSUAL: dict[str, Callable[[Optimizer], None]] = {
    "two epsilons": with_setting("eps", (1e-30, 1e-3)),
    "a whole epsilon": with_setting("eps", 0),
    "betas in tensors": with_setting("betas", (torch.tensor(0.9), torch.tensor(0.99))),
    "one beta": with_setting("betas", (0.9,)),
    "no betas": with_setting("betas", None),
    "a moment that is none": with_state("exp_avg", None),
    "a moment of another shape": with_state("exp_avg_sq", torch.ones(63)),
    "a moment with gaps": with_state("exp_avg_sq", torch.ones(128)[::2]),
    "a moment of a subclass": with_state("exp_avg", torch.ones(64).as_subclass(Wrapped)),
    "a moment of whole numbers": with_state("exp_avg", torch.ones(64, dtype=torch.int64)),
    "an age in half precision": with_state("step", torch.tensor(1, dtype=torch.float16)),
    "a plain age": with_state("step", 1),
    "parameters in a tuple": with_setting("params", ()),
    "more": with_more,
    "fewer": with_fewer,
    "another": with_another,
    "another order": in_another_order,
    "no state": without_a_state,
    "a state that is no dictionary": with_a_view,
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_not_as_usual_is_left_to_be_found_one_by_one(name: str) -> None:
    parameters = weights()
    optimizer = torch.optim.AdamW(parameters)
    give_gradients(parameters, 0)
    measured = OptimizerPass(parameters)
    assert in_one_call(measured, optimizer) is not None
    assert measured.before_step(parameters, optimizer.param_groups)
    optimizer.step()
    before = measured.results()
    UNUSUAL[name](optimizer)
    assert measured.after_step(optimizer.param_groups, optimizer.state) is None
    assert measured.results() == before
    # What was kept before is still there.
    nothing: list[Any] = [None] * len(parameters)
    after = measured.after_update(nothing, nothing, [np.nan] * len(parameters))
    assert (after[:, 6] > 0).all()


@pytest.mark.parametrize("name", ["more", "fewer", "another"])
def test_other_parameters_are_refused_before_a_step(name: str) -> None:
    parameters = weights()
    optimizer = torch.optim.AdamW(parameters)
    give_gradients(parameters, 0)
    measured = OptimizerPass(parameters)
    known = list(parameters)
    UNUSUAL[name](optimizer)
    assert not measured.before_step(known, optimizer.param_groups)
    assert not measured.before_step(known, [{"params": tuple(known)}])
    assert not measured.before_step(known, ({"params": known},))  # type: ignore[arg-type]  # too
    assert not measured.before_step(known, ["params"])  # type: ignore[list-item]  # on purpose
    assert not measured.before_step(known[:-1], [{"params": known[:-1]}])
    assert measured.after_step([{"params": known}], {}) is None


GRADIENTS: dict[str, Callable[[], Tensor]] = {
    "transposed": lambda: torch.ones(50, 40).T,
    "cut from longer rows": lambda: torch.ones(40, 60)[:, :50],
    "sparse": lambda: torch.eye(40, 50).to_sparse(),
    "on no device": lambda: torch.ones(40, 50, device="meta"),
    "zeros without memory": lambda: torch._efficientzerotensor(40, 50),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_that_are_not_plain_memory_are_refused(name: str) -> None:
    parameters = weights()
    give_gradients(parameters, 0)
    if name == "on no device":
        parameters[0] = nn.Parameter(torch.ones(40, 50, device="meta"))
    parameters[0].grad = GRADIENTS[name]()
    assert not OptimizerPass(parameters).before_step(parameters, [{"params": parameters}])


def test_a_single_number_is_refused_since_it_may_be_negated() -> None:
    parameters = [nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(2))]
    give_gradients(parameters, 0)
    assert not OptimizerPass(parameters).before_step(parameters, [{"params": parameters}])


def test_inside_a_transform_nothing_is_measured() -> None:
    parameters = weights()
    give_gradients(parameters, 0)
    measured = OptimizerPass(parameters)
    answers: list[bool] = []

    def inner(x: Tensor) -> Tensor:
        answers.append(measured.before_step(parameters, [{"params": parameters}]))
        return x.sum()

    torch.func.grad(inner)(torch.ones(2))
    assert answers == [False]


def test_without_the_library_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load", lambda: None)
    parameters = weights()
    give_gradients(parameters, 0)
    measured = OptimizerPass(parameters)
    assert not measured.before_step(parameters, [{"params": parameters}])
    assert measured.after_step([{"params": parameters}], {}) is None


def test_no_reference_is_kept_or_lost() -> None:
    parameters = weights()
    optimizer = torch.optim.AdamW(parameters)
    give_gradients(parameters, 0)
    measured = OptimizerPass(parameters)
    assert in_one_call(measured, optimizer) is not None

    def counts() -> list[int]:
        objects: list[Any] = [*parameters, optimizer.state, optimizer.param_groups]
        for parameter in parameters:
            entry = optimizer.state[parameter]
            objects += [entry, *entry.values()]
        return [sys.getrefcount(thing) for thing in objects]

    before = counts()
    for _ in range(100):
        assert in_one_call(measured, optimizer) is not None
        with_setting("eps", 0)(optimizer)
        assert in_one_call(measured, optimizer) is None
        with_setting("eps", 1e-8)(optimizer)
    measured._forget()
    assert counts() == before


def test_a_refusal_gives_none_without_losing_references_to_it() -> None:
    interface = handles()
    assert interface is not None
    before = sys.getrefcount(None)
    for _ in range(10_000):
        assert interface.numbers([torch.ones(2)]) is None
    assert abs(sys.getrefcount(None) - before) < 1000
