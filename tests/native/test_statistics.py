"""The two passes around an update, against a slow reference and on a real training run."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from needs import need_native
from slow_statistics import Case, assert_same, case, check_case, measure, reference
from torch import Tensor, nn

from lossleuth.native import library as native
from lossleuth.native.blocks import BLOCK, WHOLE
from lossleuth.native.columns import COLUMNS
from lossleuth.native.statistics import ParameterPass

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
ODD = [0.0, -0.0, 1e-45, -1e-40, 1.0, -1.0, 1e30, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("count", [0, 1, 7, 64, 4097])
def test_every_type_and_size_gives_the_reference(
    kernels: str, dtype: torch.dtype, count: int
) -> None:
    check_case(case(dtype, count), every=1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("gradient", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("moment", [torch.float32, torch.float64], ids=str)
def test_types_may_be_mixed(
    kernels: str, dtype: torch.dtype, gradient: torch.dtype, moment: torch.dtype
) -> None:
    check_case(case(dtype, gradient=gradient, moment=moment))


def test_a_million_and_three_elements(kernels: str) -> None:
    check_case(case(count=1_000_003), every=1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", ["before", "after", "gradient", "first", "second"])
def test_an_odd_number_anywhere_gives_the_reference(
    kernels: str, dtype: torch.dtype, odd: float, place: str
) -> None:
    c = case(dtype, 37)
    c[place][5] = odd
    check_case(c)


def test_squares_of_huge_and_tiny_numbers_are_in_float64(kernels: str) -> None:
    c = case(count=3)
    c["gradient"] = torch.tensor([1e30, -1e30, 1e-40])
    c["before"], c["after"] = torch.tensor([1e30, 0.0, 0.0]), torch.tensor([-1e30, 1e-30, 0.0])
    row = dict(zip(COLUMNS, measure(c)[0], strict=True))
    assert row["gradient_squares"] == pytest.approx(2e60, rel=1e-6)
    assert row["gradient_sum"] == pytest.approx(1e-40, rel=1e-3)
    assert row["update_squares"] == pytest.approx(4e60, rel=1e-6)
    assert row["gradient_zeros"] == 0


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("threshold", [0.05, math.nan])
def test_what_is_missing_is_nan(
    kernels: str, gradient: bool, first: bool, second: bool, threshold: float
) -> None:
    c = case(count=100)
    for name, there in (("gradient", gradient), ("first", first), ("second", second)):
        c[name] = c[name] if there else None
    c["threshold"] = threshold
    check_case(c)


numbers = st.one_of(
    st.floats(width=32), st.sampled_from(ODD), st.floats(-1, 1, width=32), st.just(0.0)
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(*[numbers] * 5), min_size=1, max_size=70),
    dtype=st.sampled_from(FLOATS),
    threshold=st.sampled_from([0.0, 1e-12, 1e-3, 0.5, math.nan]),
)
def test_any_numbers_give_the_reference(
    kernels: str, rows: list[tuple[float, ...]], dtype: torch.dtype, threshold: float
) -> None:
    names = ("before", "after", "gradient", "first", "second")
    columns = zip(*rows, strict=True)
    c: Case = {n: torch.tensor(x).to(dtype) for n, x in zip(names, columns, strict=True)}
    # Huge directions overflow float32, which is what the kernels compute them in.
    c["first"] = c["first"].clamp(-1e3, 1e3)
    c["second"] = c["second"].clamp(min=1e-6)
    check_case({**c, "threshold": threshold})


@pytest.mark.parametrize("every", [1, 8])
def test_threads_do_not_change_a_bit(every: int) -> None:
    need_native()
    cases = [case(count=n, seed=n) for n in (2_500_001, 3, 300_000, 1_000_000, 0, 9000)]
    one, two, five = (measure(*cases, every=every, threads=n) for n in (1, 2, 5))
    assert one.tobytes() == two.tobytes() == five.tobytes()


def test_results_agree_with_and_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case(count=n, seed=n) for n in (5, 50_000, 123_457)]
    found = measure(*cases, steps=3)
    monkeypatch.setattr(native, "load", lambda: None)
    np.testing.assert_allclose(found, measure(*cases, steps=3), rtol=1e-12, atol=1e-10)


def test_what_is_seen_in_part_is_scaled_to_the_whole(kernels: str) -> None:
    c = case(count=50 * BLOCK + 7)
    small = case(count=WHOLE)
    expected = reference(**c)
    found = np.stack([measure(c, small, steps=n, every=8) for n in range(1, 13)])
    shares = found[:, 0, COLUMNS.index("seen_share")]
    assert ((shares > 0.1) & (shares < 0.2)).all()
    for name in ("weight_squares", "update_squares", "wanted_squares", "second_under_epsilon"):
        estimates = found[:, 0, COLUMNS.index(name)]
        assert np.abs(estimates / expected[name] - 1).max() < 0.1
        assert len(set(estimates)) > 1, "another part is seen in each step"
    gradient = slice(0, 5)
    np.testing.assert_allclose(
        found[:, 0, gradient], [list(expected.values())[gradient]] * len(found), rtol=1e-10
    )
    assert_same(found[-1, 1], reference(**small), scale=1e5)


def swallowed_share(dtype: torch.dtype, rate: float) -> float:
    torch.manual_seed(0)
    weight = nn.Parameter((torch.rand(4000) + 0.5).to(dtype))
    optimizer = torch.optim.AdamW([weight], lr=rate, weight_decay=0.0)
    passes = ParameterPass([weight])
    for _ in range(3):
        weight.grad = torch.randn(4000).to(dtype)
        passes.before_update([weight], [weight.grad])
        optimizer.step()
        state = optimizer.state[weight]
        found = passes.after_update([state["exp_avg"]], [state["exp_avg_sq"]], [1e-8])
    row = dict(zip(COLUMNS, found[0], strict=True))
    return float(row["swallowed_squares"] / row["wanted_squares"])


def test_updates_below_half_an_ulp_are_seen_as_swallowed(kernels: str) -> None:
    assert swallowed_share(torch.bfloat16, 1e-4) > 0.99
    assert swallowed_share(torch.float32, 1e-4) < 1e-6


def test_the_direction_is_that_of_adam(kernels: str) -> None:
    """The update's norm is the direction's times rate and bias correction: it is the direction."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(500, dtype=torch.float64))
    rate, betas, epsilon = 1e-3, (0.9, 0.999), 1e-3
    optimizer = torch.optim.Adam([weight], lr=rate, betas=betas, eps=epsilon)
    passes = ParameterPass([weight])
    for step in range(1, 6):
        weight.grad = 1e-2 * torch.randn_like(weight)
        passes.before_update([weight], [weight.grad])
        optimizer.step()
        state = optimizer.state[weight]
        threshold = epsilon * math.sqrt(1 - betas[1] ** step)
        found = passes.after_update([state["exp_avg"]], [state["exp_avg_sq"]], [threshold])
        row = dict(zip(COLUMNS, found[0], strict=True))
        factor = rate * math.sqrt(1 - betas[1] ** step) / (1 - betas[0] ** step)
        assert row["update_squares"] == pytest.approx(factor**2 * row["wanted_squares"], rel=1e-9)


@pytest.mark.parametrize("kind", ["adamw", "sgd", "momentum", "rmsprop"])
def test_training_is_the_same_to_the_bit(kernels: str, kind: str) -> None:
    def train(watched: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 96), nn.Tanh(), nn.Linear(96, 96), nn.Linear(96, 1))
        weights = list(model.parameters())
        make: dict[str, Callable[[], torch.optim.Optimizer]] = {
            "adamw": lambda: torch.optim.AdamW(weights, lr=1e-2, fused=True),
            "sgd": lambda: torch.optim.SGD(weights, lr=1e-2, weight_decay=1e-2),
            "momentum": lambda: torch.optim.SGD(weights, lr=1e-2, momentum=0.9),
            "rmsprop": lambda: torch.optim.RMSprop(weights, lr=1e-3),
        }
        optimizer = make[kind]()
        passes = ParameterPass(weights)
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(16, 8)).square().mean().backward()
            if watched:
                passes.before_update(weights, [weight.grad for weight in weights])
            optimizer.step()
            if watched:
                states = [optimizer.state[weight] for weight in weights]
                found = passes.after_update(
                    [s.get("exp_avg", s.get("momentum_buffer")) for s in states],
                    [s.get("exp_avg_sq", s.get("square_avg")) for s in states],
                    [1e-8] * len(weights),
                )
                assert passes.reasons == {}
                assert np.isfinite(found[:, COLUMNS.index("wanted_squares")]).all()
        return [weight.detach() for weight in weights]

    for bare, watched in zip(train(False), train(True), strict=True):
        assert bare.numpy().tobytes() == watched.numpy().tobytes()


def test_tensors_are_only_read_and_not_kept(kernels: str) -> None:
    c = case(count=20_000)
    weight, g = nn.Parameter(c["before"].clone()), c["gradient"].clone()
    versions = [t._version for t in (weight, g, c["first"], c["second"])]
    passes = ParameterPass([weight])
    passes.before_update([weight], [g])
    passes.after_update([c["first"]], [c["second"]], [1e-8])
    assert [t._version for t in (weight, g, c["first"], c["second"])] == versions
    assert torch.equal(weight, c["before"]) and torch.equal(g, c["gradient"])
    gone = weakref.ref(g)
    del g
    assert gone() is None
    gone = weakref.ref(weight)
    del weight
    assert gone() is None


def run_once(
    weight: Tensor, gradient: Tensor | None, after: Callable[[], None] = lambda: None
) -> tuple[dict[str, float], dict[int, str]]:
    passes = ParameterPass([weight])
    passes.before_update([weight], [gradient])
    after()
    found = passes.after_update([None], [None], [math.nan])
    return dict(zip(COLUMNS, found[0].tolist(), strict=True)), passes.reasons


def test_layouts_other_than_rows_are_right(kernels: str) -> None:
    torch.manual_seed(0)
    for weight, g in (
        (torch.randn(30, 40).t(), torch.randn(30, 40).t()),
        (torch.randn(30, 40).t(), torch.randn(40, 30)),
        (torch.randn(40, 60)[:, ::2], torch.randn(1, 30).expand(40, 30)),
        (torch.randn(40, 30), torch.randn(40, 1).expand(40, 30)),
    ):
        old = weight.clone()
        step = torch.randn(40, 30) * (torch.rand(40, 30) < 0.5)
        row, reasons = run_once(weight, g, lambda w=weight, s=step: w.add_(s))
        assert reasons == {}
        assert_same(np.array(list(row.values())), reference(old, weight, g), scale=1e4)


def test_a_sparse_gradient_counts_the_zeros_it_does_not_store(kernels: str) -> None:
    table = nn.Embedding(10, 4, sparse=True)
    table(torch.tensor([1, 3, 3])).sum().backward()
    g = table.weight.grad
    assert g is not None and g.is_sparse
    row, reasons = run_once(table.weight, g, lambda: table.weight.data.add_(1.0))
    assert reasons == {}
    assert row["gradient_zeros"] == 32 and row["gradient_sum"] == 12
    assert row["gradient_squares"] == 4 + 4 * 4 and row["gradient_largest"] == 2
    assert row["wanted_squares"] == 20 and row["swallowed_squares"] == 0
    row, _ = run_once(table.weight, torch.zeros(10, 4).to_sparse())
    assert row["gradient_zeros"] == 40 and row["gradient_largest"] == 0


def test_a_complex_weight_is_measured_as_its_real_parts(kernels: str) -> None:
    weight = torch.tensor([3 + 4j, 0 + 0j])
    row, reasons = run_once(weight, torch.tensor([1 + 2j, 0 - 2j]), lambda: weight.sub_(1j))
    assert reasons == {}
    assert row["weight_squares"] == 9 + 9 + 1 and row["update_squares"] == 2
    assert row["gradient_squares"] == 9 and row["gradient_zeros"] == 1
    assert row["swallowed_squares"] == 1 and row["seen_share"] == 1


def test_a_negated_view_keeps_its_sign(kernels: str) -> None:
    negated = torch.tensor([1 + 2j]).conj().imag
    assert negated.is_neg()
    row, _ = run_once(torch.ones(1), negated)
    assert row["gradient_sum"] == -2


class Marked(Tensor):
    """A tensor that only says what it is."""


class Opaque(Tensor):
    """A tensor that nothing can be done with."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("numel", "element_size", "__get__"):
            return super().__torch_function__(func, types, args, kwargs or {})
        raise RuntimeError("not for you")


def test_a_subclass_is_measured_where_torch_can(kernels: str) -> None:
    weight = torch.arange(4.0).as_subclass(Marked)
    row, reasons = run_once(weight, torch.ones(4).as_subclass(Marked))
    assert reasons == {} and row["weight_squares"] == 14 and row["gradient_sum"] == 4


def freed(count: int, left: int = 0) -> Tensor:
    tensor = torch.ones(count + 2)[2:]
    tensor.untyped_storage().resize_(left)
    return tensor


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (freed(8), "its storage was freed"),
        (freed(8, left=12), "its storage was freed"),
        (torch.empty(8, device="meta"), "a shape but no values"),
        (torch.ones(8).as_subclass(Opaque), "not for you"),
    ],
    ids=["freed", "cut down", "meta", "opaque"],
)
def test_what_cannot_be_read_is_nan_with_a_reason(
    kernels: str, weight: Tensor, reason: str
) -> None:
    other = torch.ones(3)
    passes = ParameterPass([weight, other])
    passes.before_update([weight, other], [weight, torch.ones(3)])
    found = passes.after_update([None, None], [None, None], [math.nan, math.nan])
    assert reason in passes.reasons[0]
    assert np.isnan(found[0]).all()
    assert 1 not in passes.reasons and found[1, COLUMNS.index("weight_squares")] == 3


def test_moments_of_another_shape_are_named(kernels: str) -> None:
    passes = ParameterPass([torch.ones(6)])
    passes.before_update([torch.ones(6)], [torch.ones(6)])
    found = passes.after_update([torch.ones(2)], [None], [math.nan])
    assert "the first moment has 2 values, the weight 6" in passes.reasons[0]
    assert np.isnan(found[0, 5:]).all() and found[0, 0] == 6


def test_storage_that_goes_away_inside_the_step_is_not_read(kernels: str) -> None:
    weight = torch.ones(8)
    row, reasons = run_once(weight, torch.ones(8), lambda: weight.untyped_storage().resize_(0))
    assert "its storage was freed" in reasons[0]
    assert row["gradient_sum"] == 8 and math.isnan(row["weight_squares"])


def test_a_gradient_cleared_inside_the_step_is_no_direction(kernels: str) -> None:
    g = torch.ones(20_000)
    row, reasons = run_once(torch.ones(20_000), g, lambda: g.zero_())
    assert reasons == {0: "the gradient was cleared inside the step"}
    assert math.isnan(row["wanted_squares"]) and row["gradient_sum"] == 20_000


def test_tensors_may_move_grow_and_change_their_type(kernels: str) -> None:
    weight = nn.Parameter(torch.ones(4))
    passes = ParameterPass([weight])

    def squares(update: Callable[[], Any]) -> list[float]:
        passes.before_update([weight], [torch.ones(weight.shape)])
        update()
        found = passes.after_update([None], [None], [math.nan])
        assert passes.reasons == {}
        return [found[0, COLUMNS.index(n)] for n in ("weight_squares", "update_squares")]

    def set_data(value: Tensor) -> Callable[[], None]:
        return lambda: setattr(weight, "data", value)

    assert squares(lambda: weight.data.add_(1)) == [16, 4]
    assert squares(set_data(torch.full((4,), 3.0))) == [36, 4]
    assert squares(set_data(torch.full((4,), 4.0, dtype=torch.float64))) == [64, 4]
    assert squares(lambda: weight.data.add_(1)) == [100, 4]
    weight.data = torch.ones(10_000, dtype=torch.bfloat16)
    assert squares(lambda: weight.data.add_(1)) == [40_000, 10_000]
    weight.data = weight.data[:5]
    assert squares(lambda: weight.data.add_(1)) == [45, 5]


def test_a_gradient_that_comes_and_goes(kernels: str) -> None:
    weights = [torch.ones(3), torch.ones(2)]
    passes = ParameterPass(weights)
    for there in ([True, True], [True, False], [False, False], [False, True]):
        gradients = [torch.ones(3) if there[0] else None, torch.ones(2) if there[1] else None]
        found = passes.before_update(weights, gradients).copy()
        passes.after_update([None, None], [None, None], [math.nan, math.nan])
        expected = [3.0 if there[0] else math.nan, 2.0 if there[1] else math.nan]
        np.testing.assert_equal(found[:, 0], expected)


def test_lists_of_unequal_length_are_refused(kernels: str) -> None:
    passes = ParameterPass([torch.ones(1)])
    with pytest.raises(ValueError, match="expected lists of 1, found 2"):
        passes.before_update([torch.ones(1)], [None, None])


def test_a_wrong_call_is_refused(kernels: str) -> None:
    with pytest.raises(ValueError, match="at least 1, found 0"):
        ParameterPass([], every=0)
    passes = ParameterPass([torch.ones(1)])
    with pytest.raises(ValueError, match="expected lists of 0, found 1"):
        passes.after_update([None], [None], [math.nan])


def test_no_parameters_at_all(kernels: str) -> None:
    passes = ParameterPass([])
    assert passes.before_update([], []).shape == (0, len(COLUMNS))
    assert passes.after_update([], [], []).shape == (0, len(COLUMNS))
