"""Problems: functions with claimed gradients, as scalars in float64 where that can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lossleuth.gradcheck.problems import array, given_problem, shifted, size, torch_problem


def tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def only_float32(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError("expected scalar type Float but found Double")
    return (x**2).sum()


# torch functions


def test_a_float32_function_is_judged_in_float64() -> None:
    x = tensor(5, dtype=torch.float32)
    problem = torch_problem(lambda x: (x**3).sum(), [x], 0)
    assert problem.epsilon == 2.0**-52
    assert problem.values[0].dtype == torch.float64
    assert np.allclose(problem.claimed[0], 3 * x.double().numpy() ** 2, rtol=1e-14)
    assert problem.at(problem.values) == pytest.approx(float((x.double() ** 3).sum()), rel=1e-14)
    assert problem.forward is not None
    direction = tensor(5, seed=1).numpy()
    expected = float((problem.claimed[0] * direction).sum())
    assert problem.forward((direction,)) == pytest.approx(expected, rel=1e-13)


def test_a_function_that_insists_on_float32_is_judged_with_its_rounding() -> None:
    problem = torch_problem(only_float32, [tensor(5, dtype=torch.float32)], 0)
    assert problem.epsilon == 2.0**-23
    assert problem.values[0].dtype == torch.float32
    assert problem.forward((np.ones(5),)) is None


def test_inputs_that_are_not_floating_point_stay_as_they_are() -> None:
    x, rows = tensor(4, 2), torch.tensor([2, 0])
    problem = torch_problem(lambda rows, x, factor: factor * x[rows], [rows, x, 3], 0)
    assert problem.names == ("input 1",)
    assert bool((problem.claimed[0][[0, 2]] != 0).all())
    assert bool((problem.claimed[0][[1, 3]] == 0).all())


def test_every_number_of_every_output_counts() -> None:
    x = tensor(3)
    problem = torch_problem(lambda x: (x[0] * 5, [1], x[1:] * 2), [x], 0)
    claimed = problem.claimed[0]
    assert claimed[0] == 5
    assert abs(claimed[1]) != abs(claimed[2]) and claimed[1] * claimed[2] != 0


def test_the_inputs_are_left_alone() -> None:
    x = tensor(3).requires_grad_()
    torch_problem(lambda x: x.exp(), [x], 0)
    assert x.grad is None and x.requires_grad
    assert torch.equal(x.detach(), tensor(3))


def test_an_unused_input_has_a_gradient_of_zero() -> None:
    problem = torch_problem(lambda x, y: x.sum(), [tensor(3), tensor(2)], 0)
    assert problem.claimed[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: "no tensor", "expected floating-point tensors from the function, found str"),
        (lambda x: x > 0, "expected floating-point tensors from the function, found Tensor"),
        (lambda x: x.detach(), "can differentiate, found a constant"),
    ],
)
def test_a_function_without_a_gradient_gets_a_sentence(function: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        torch_problem(function, [tensor(3)], 0)


def test_an_error_of_the_users_own_function_comes_through() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch_problem(lambda x: x @ x, [tensor(2, 3)], 0)


# any function


def test_parameters_may_be_numbers_lists_and_whole() -> None:
    problem = given_problem(
        lambda a, b, c: a * b.sum() * c.sum(),
        [1.0, [2, 2], [3, 3]],
        [2.0, [1, 2], np.array([3, 4])],
    )
    assert problem.names == ("parameter 0", "parameter 1", "parameter 2")
    assert all(v.dtype == np.float64 for v in problem.values)
    moved = tuple(shifted(v, np.full(np.shape(v), 0.5)) for v in problem.values)
    assert problem.at(moved) == 2.5 * 4 * 8


def test_a_mapping_names_the_parameters_and_orders_the_gradients() -> None:
    problem = given_problem(
        lambda a, b: a.sum() * b.sum(),
        {"b": np.ones(2), "a": np.zeros(3)},
        {"a": np.ones(3), "b": np.zeros(2)},
    )
    assert problem.names == ("a", "b")
    assert [c.tolist() for c in problem.claimed] == [[0.0] * 3, [1.0] * 2]


def test_a_gradient_of_one_number_needs_no_list() -> None:
    problem = given_problem(lambda w: w**2, lambda w: 2 * w, [np.array(3.0)])
    assert problem.claimed[0].shape == () and float(problem.claimed[0]) == 6.0


@pytest.mark.parametrize(
    ("dtype", "epsilon"), [(np.float16, 2.0**-10), (np.float32, 2.0**-23), (np.float64, 2.0**-52)]
)
def test_the_rounding_is_that_of_the_parameters(dtype: type, epsilon: float) -> None:
    problem = given_problem(np.sum, np.ones(3), [np.ones(3, dtype)])
    assert problem.epsilon == epsilon


@pytest.mark.parametrize(
    ("gradient", "parameters", "kind", "sentence"),
    [
        ([np.ones(2)], [np.ones(3)], ValueError, r"expected gradients of shapes \(3,\), found"),
        ([np.ones(3)], [np.ones(3), np.ones(2)], ValueError, r"\(3,\), \(2,\), found \(3,\)$"),
        ([None], [np.ones(3)], ValueError, "found None for parameter 0"),
        ({"v": 1}, {"w": np.ones(3)}, ValueError, "found none for w"),
        ([1], [torch.tensor([1])], TypeError, "found parameter 0 of torch.int64"),
        ([], [], TypeError, "expected parameters, found none"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(
    gradient: Any, parameters: Any, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        given_problem(np.sum, gradient, parameters)


def test_a_loss_of_several_numbers_gets_a_sentence() -> None:
    for one in (np.ones(3), tensor(3)):
        problem = given_problem(lambda w: w * 2, [one], [one])
        with pytest.raises(ValueError, match=r"expected a single number .* found shape \(3,\)"):
            problem.at(problem.values)


# moving


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5), st.floats(-10, 10))
def test_a_moved_value_keeps_its_kind(numbers: list[float], by: float) -> None:
    step = np.full(len(numbers), by)
    for value in (
        torch.tensor(numbers, dtype=torch.bfloat16),
        torch.tensor(numbers, dtype=torch.float64),
        np.array(numbers, np.float32),
    ):
        before = array(value).copy()
        moved = shifted(value, step)
        assert type(moved) is type(value) and moved.dtype == value.dtype
        nearest = torch.tensor(before + step).to(torch.as_tensor(value).dtype)
        assert np.array_equal(array(moved), nearest.double().numpy())
        assert np.array_equal(array(value), before)


def test_the_size_is_the_root_mean_square_or_one() -> None:
    assert size(np.array([3.0, -4.0])) == pytest.approx(math.sqrt(12.5))
    assert size(torch.tensor([2.0, 2.0])) == 2.0
    assert size(np.zeros(3)) == 1.0
    assert size(np.zeros((0, 3))) == 1.0
