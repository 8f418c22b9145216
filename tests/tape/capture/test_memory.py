"""Memory and results."""

from __future__ import annotations

import torch

from lossleuth.tape.capture.memory import (
    READ,
    kept_results,
    memory_of,
    seen_alike,
    written_tensors,
)

aten = torch.ops.aten


def test_what_is_written_is_found_by_position_name_and_in_lists() -> None:
    a, b = torch.ones(2), torch.ones(2)
    assert [t is a for t in written_tensors(aten.add_.Tensor, (a, b), {})] == [True]
    assert [t is b for t in written_tensors(aten.mul.out, (a, 2.0), {"out": b})] == [True]
    both = written_tensors(aten._foreach_add_.Scalar, ([a, b], 1.0), {})
    assert [t is x for t, x in zip(both, (a, b), strict=True)] == [True, True]
    assert written_tensors(aten.add.Tensor, (a, b), {}) == []


def test_random_numbers_choices_and_reads_are_kept_and_nothing_else() -> None:
    x = torch.tensor([3.0, 1.0])
    assert kept_results(aten.sin.default, [x], (x.sin(),)) is None
    assert kept_results(aten.add.Tensor, [torch.ones(1).long()], (torch.ones(1).long(),)) is None
    noise = torch.rand(2)
    (kept,) = kept_results(aten.rand.default, [], (noise,))
    assert torch.equal(kept, noise)
    assert kept.data_ptr() != noise.data_ptr()
    values, places = x.sort()
    assert kept_results(aten.sort.default, [x], (values, places))[0] is None
    assert kept_results(aten.sort.default, [x], (values, places))[1].tolist() == [1, 0]
    assert kept_results(READ, [x], (3.0,)) == (3.0,)


def test_views_share_memory_and_are_told_apart() -> None:
    x = torch.ones(4, 4)
    assert memory_of(x) == memory_of(x[1:])
    assert memory_of(x) != memory_of(x.clone())
    assert memory_of(torch.ones(2).to_sparse()) is None
    assert seen_alike(x, x.detach())
    assert not seen_alike(x, x.t())
    assert not seen_alike(x[0], x[1])
