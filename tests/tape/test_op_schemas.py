"""What schemas say, held against what the operations do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lossleuth.tape.op_schemas import (
    is_foreign,
    is_random,
    is_view,
    short_name,
    tensors_in,
    traits_of,
    written_arguments,
)

aten = torch.ops.aten


@torch.library.custom_op("lossleuth_test::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("lossleuth_test::scale_into", mutates_args=("out",))
def scale_into(x: Tensor, factor: float, out: Tensor) -> None:
    out.copy_(x * factor)


CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.view.default, ([6],)),
    (aten.transpose.int, (0, 1)),
    (aten.select.int, (0, 1)),
    (aten.slice.Tensor, (0, 0, 1)),
    (aten.expand.default, ([4, 2, 3],)),
    (aten.unsqueeze.default, (0,)),
    (aten.detach.default, ()),
    (aten.alias.default, ()),
    (aten._unsafe_view.default, ([6],)),
    (aten.as_strided.default, ([2], [1])),
    (aten.diagonal.default, ()),
    (aten.split.Tensor, (1,)),
    (aten.unbind.int, ()),
    (aten.mul.Tensor, (2,)),
    (aten.clone.default, ()),
    (aten.relu.default, ()),
    (aten.cumsum.default, (0,)),
    (aten.sort.default, ()),
    (aten._to_copy.default, ()),
]


@pytest.mark.parametrize(("operation", "rest"), CALLS, ids=[str(o) for o, _ in CALLS])
def test_a_view_is_what_shares_memory(operation: Any, rest: tuple[Any, ...]) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    made = list(tensors_in(operation(x, *rest)))
    memory = x.untyped_storage().data_ptr()
    assert made
    shares = all(m.untyped_storage().data_ptr() == memory for m in made)
    assert is_view(operation) is shares


@pytest.mark.parametrize(
    ("operation", "written"),
    [
        (aten.add_.Tensor, ((0, "self"),)),
        (aten.add.out, ((3, "out"),)),
        (aten.copy_.default, ((0, "self"),)),
        (aten._foreach_add_.Scalar, ((0, "self"),)),
        (aten._native_batch_norm_legit.default, ((3, "running_mean"), (4, "running_var"))),
        (aten.topk.values, ((5, "values"), (6, "indices"))),
        (aten.mm.default, ()),
        (aten.view.default, ()),
    ],
    ids=str,
)
def test_writes_are_known_by_position_and_name(
    operation: Any, written: tuple[tuple[int, str], ...]
) -> None:
    assert written_arguments(operation) == written


def test_what_writes_is_no_view_although_it_returns_its_input() -> None:
    x = torch.ones(2)
    assert aten.add_.Tensor(x, 1).data_ptr() == x.data_ptr()
    assert not is_view(aten.add_.Tensor)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (aten.bernoulli.default, (torch.full((64,), 0.5),)),
        (aten.native_dropout.default, (torch.ones(64), 0.5, True)),
        (aten.randn.default, ([64],)),
        (aten.rand_like.default, (torch.ones(64),)),
        (aten.randint.default, (1000, [64])),
        (aten.randperm.default, (64,)),
        (aten.multinomial.default, (torch.ones(64), 32)),
        (aten.normal.Tensor_Tensor, (torch.ones(64), torch.ones(64))),
        (aten.sin.default, (torch.ones(64),)),
        (aten.zeros.default, ([64],)),
        (aten.native_layer_norm.default, (torch.ones(4, 4), [4], None, None, 1e-5)),
    ],
    ids=str,
)
def test_random_is_what_depends_on_the_seed(operation: Any, arguments: tuple[Any, ...]) -> None:
    def drawn(seed: int) -> list[Tensor]:
        torch.manual_seed(seed)
        return list(tensors_in(operation(*arguments)))

    with torch.random.fork_rng():
        pairs = zip(drawn(1), drawn(2), strict=True)
        differs = any(not torch.equal(a, b) for a, b in pairs)
    assert is_random(operation) is differs


def test_an_operation_that_somebody_registered_is_foreign() -> None:
    custom = torch.ops.lossleuth_test.doubled.default
    into = torch.ops.lossleuth_test.scale_into.default
    assert is_foreign(custom) and is_foreign(into)
    assert not is_foreign(aten.mul.Tensor)
    assert not is_foreign(torch.ops.prims.mul.default)
    assert short_name(custom) == "doubled"
    assert not is_view(custom) and not is_random(custom)
    assert written_arguments(custom) == ()
    assert written_arguments(into) == ((2, "out"),)


def test_tensors_are_found_in_any_nest_in_order() -> None:
    a, b, c = (torch.full((), float(i)) for i in range(3))
    found = list(tensors_in(([a, "x", (b,)], {"k": [None, c]}, 3)))
    assert [id(t) for t in found] == [id(a), id(b), id(c)]
    assert list(tensors_in("abc")) == []


@pytest.mark.parametrize(
    "operation",
    [
        *(aten.view.default, aten.add_.Tensor, aten.mul.out, aten.bernoulli.default),
        *(aten._scaled_dot_product_flash_attention_for_cpu.default, aten.mm.default),
    ],
)
def test_traits_are_what_each_question_gives(operation: Any) -> None:
    traits = traits_of(operation)
    assert traits.name == short_name(operation)
    assert traits.written == written_arguments(operation)
    assert traits.is_view == is_view(operation)
    assert traits.is_random == is_random(operation)
    assert traits.is_fused_attention == ("scaled_dot_product" in traits.name)
