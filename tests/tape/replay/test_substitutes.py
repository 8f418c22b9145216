"""Substitutes for operations, against torch's own in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.substitutes import (
    attention,
    functional,
    gathered,
    half_to_float,
    named_arguments,
)

aten = torch.ops.aten


def tensor(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def qkv(heads: int = 4, groups: int = 4, queries: int = 5, keys: int = 5) -> list[Tensor]:
    shapes = [(2, heads, queries, 8), (2, groups, keys, 8), (2, groups, keys, 8)]
    return [tensor(*s, seed=i).requires_grad_() for i, s in enumerate(shapes)]


def assert_same_with_gradients(given: dict[str, Any], **options: Any) -> None:
    """As torch gives it, forward and backward."""
    inputs = [given["query"], given["key"], given["value"]]
    ours = attention(given)
    theirs = F.scaled_dot_product_attention(*inputs, **options)
    assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-13)
    weights = tensor(*theirs.shape, seed=9)
    for a, b in zip(
        torch.autograd.grad(ours, inputs, weights),
        torch.autograd.grad(theirs, inputs, weights),
        strict=True,
    ):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-12)


def as_given(inputs: list[Tensor], **more: Any) -> dict[str, Any]:
    return dict(zip(("query", "key", "value"), inputs, strict=True)) | more


# attention


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 6), (6, 3)])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_torchs(queries: int, keys: int, causal: bool) -> None:
    given = as_given(qkv(queries=queries, keys=keys), is_causal=causal, dropout_p=0.0)
    assert_same_with_gradients(given, is_causal=causal)


@pytest.mark.parametrize("name", ["attn_mask", "attn_bias"])
@pytest.mark.parametrize("shape", [(5, 5), (2, 1, 5, 5), (1, 4, 5, 5)])
def test_masks_of_either_kind_are_torchs(name: str, shape: tuple[int, ...]) -> None:
    numbers = tensor(*shape, seed=4)
    may = (numbers > 0) | torch.eye(5, dtype=torch.bool)
    for mask in (may, numbers, numbers.masked_fill(~may, float("-inf"))):
        assert_same_with_gradients(as_given(qkv(), **{name: mask}), attn_mask=mask)


@pytest.mark.parametrize("scale", [None, 0.3, 2.0, 0.0])
def test_the_scale_is_kept_even_if_it_is_zero(scale: float | None) -> None:
    assert_same_with_gradients(as_given(qkv(), scale=scale), scale=scale)


@pytest.mark.parametrize("groups", [1, 2])
def test_grouped_heads_share_keys_as_torchs_do(groups: int) -> None:
    assert_same_with_gradients(
        as_given(qkv(groups=groups), is_causal=True), is_causal=True, enable_gqa=True
    )


def test_without_heads_the_lengths_may_differ() -> None:
    inputs = [tensor(2, t, 8, seed=i).requires_grad_() for i, t in enumerate((4, 6, 6))]
    assert_same_with_gradients(as_given(inputs))


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_may_look_nowhere_gets_zeros_and_sends_no_gradient(kind: str) -> None:
    may = torch.ones(5, 5, dtype=torch.bool)
    may[2] = False
    mask = may if kind == "bool" else torch.zeros(5, 5).double().masked_fill(~may, float("-inf"))
    inputs = qkv()
    out = attention(as_given(inputs, attn_mask=mask))
    assert bool((out[:, :, 2] == 0).all()) and bool((out[:, :, 1] != 0).all())
    found = torch.autograd.grad(out.square().sum(), inputs)
    assert bool((found[0][:, :, 2] == 0).all())
    # The others fare as if it were not there.
    rest = [0, 1, 3, 4]
    fewer = [inputs[0][:, :, rest], inputs[1], inputs[2]]
    expected = torch.autograd.grad(F.scaled_dot_product_attention(*fewer).square().sum(), inputs)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-12)


def test_dropout_inside_is_refused() -> None:
    with pytest.raises(CannotReplay, match="dropout"):
        attention(as_given(qkv(), dropout_p=0.1))


def test_the_fused_kernels_arguments_have_the_names_that_attention_reads() -> None:
    q, k, v = (x.detach() for x in qkv())
    fused = aten._scaled_dot_product_flash_attention_for_cpu.default
    given = named_arguments(fused, (q, k, v, 0.0, True), {"scale": 0.7})
    theirs = fused(q, k, v, 0.0, True, scale=0.7)[0]
    assert torch.allclose(attention(given), theirs, rtol=1e-12, atol=1e-13)


# choices


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(1, 4), min_size=0, max_size=3),
    where=st.integers(0, 2),
    backwards=st.booleans(),
    keep=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_recorded_choices_give_torchs_values(
    shape: list[int], where: int, backwards: bool, keep: bool, seed: int
) -> None:
    x = tensor(*shape, seed=seed)
    dim = where % max(1, len(shape)) - (max(1, len(shape)) if backwards else 0)
    length = shape[dim] if shape else 1
    calls = [
        (aten.topk.default, (x, (length + 1) // 2, dim)),
        (aten.sort.default, (x, dim, backwards)),
        (aten.max.dim, (x, dim, keep)),
        (aten.min.dim, (x, dim, keep)),
        (aten.kthvalue.default, (x, 1, dim, keep)),
        (aten.median.dim, (x, dim, keep)),
    ]
    for operation, args in calls:
        values, indices = operation(*args)
        found = gathered(named_arguments(operation, args, {}), indices)
        assert found.shape == values.shape
        assert torch.equal(found, values)


def test_a_choice_stays_when_the_numbers_change() -> None:
    x = tensor(3, 5)
    indices = x.topk(2).indices
    found = gathered(named_arguments(aten.topk.default, (-x, 2), {}), indices)
    assert torch.equal(found, -x.topk(2).values)


# variants


def test_an_out_variant_finds_the_one_that_returns() -> None:
    a, b = tensor(3, 3), tensor(3, 3, seed=1)
    for out, args in [
        (aten.mm.out, (a, b)),
        (aten.add.out, (a, b)),
        (aten.add.Scalar_out, (a, 2.0)),
        (aten.pow.Tensor_Scalar_out, (a, 3)),
        (aten.sum.IntList_out, (a, [0])),
        (aten.any.dims_out, (a > 0, [0, 1])),
    ]:
        plain = functional(out)
        assert plain is not None
        made = plain(*args)
        assert torch.equal(made, out(*args, out=torch.empty_like(made)))


def test_no_out_variant_finds_one_of_other_arguments() -> None:
    found = 0
    for name in dir(aten):
        packet = getattr(aten, name)
        for overload in getattr(packet, "overloads", list)():
            kind = getattr(packet, overload)
            plain = functional(kind) if any(a.is_out for a in kind._schema.arguments) else None
            if plain is not None:
                found += 1
                wanted = [str(a.type) for a in kind._schema.arguments if not a.is_out]
                schema = plain._schema  # type: ignore[attr-defined]  # an overload
                assert [str(a.type) for a in schema.arguments] == wanted, str(kind)
                assert not schema.is_mutable
    # Importing lossleuth alone loads hundreds of them.
    assert found > 100


def test_an_operation_that_only_writes_has_no_variant() -> None:
    assert functional(aten.copy_.default) is None


@pytest.mark.parametrize("operation", [aten._softmax.default, aten._log_softmax.default])
def test_a_softmax_of_wide_numbers_does_not_widen(operation: Any) -> None:
    x = tensor(2, 3)
    assert half_to_float(operation, (x, 1, True))[1:] == (1, False)
    operation(*half_to_float(operation, (x, 1, True)))
    assert half_to_float(operation, (x.half(), 1, True))[1:] == (1, True)
    assert half_to_float(operation, (x.bfloat16(), 1, False))[1:] == (1, False)


def test_other_operations_keep_their_arguments() -> None:
    args = (tensor(2, 3), 1, True)
    assert half_to_float(aten.sum.dim_IntList, args) is args


def test_arguments_are_named_and_defaults_filled_in() -> None:
    x = tensor(2)
    given = named_arguments(aten.add.Tensor, (x, 3), {"alpha": 2})
    assert list(given) == ["self", "other", "alpha"]
    assert given["self"] is x and given["other"] == 3 and given["alpha"] == 2
    assert named_arguments(aten.add.Tensor, (x, 3), {})["alpha"] == 1
    assert named_arguments(aten.topk.default, (x, 1), {})["dim"] == -1
