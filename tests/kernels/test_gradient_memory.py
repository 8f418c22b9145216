"""Memory that is used again, and never while something refers to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from lossleuth.kernels import cross_entropy, gradient_memory
from lossleuth.kernels.gradient_memory import MIN_BYTES, empty, forget

COUNT = MIN_BYTES // 4


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    forget()
    yield
    forget()


def test_memory_is_used_again_when_it_is_free() -> None:
    first = empty((COUNT,), torch.float32)
    place = first.data_ptr()
    del first
    assert empty((COUNT,), torch.float32).data_ptr() == place
    assert empty((COUNT // 2, 4), torch.bfloat16).data_ptr() == place


@pytest.mark.parametrize(
    "holder",
    [
        lambda tensor: tensor,
        lambda tensor: tensor[5:7],
        lambda tensor: tensor.view(-1, 2).t(),
        lambda tensor: tensor.detach(),
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.untyped_storage(),
        lambda tensor: {"kept": [tensor.view(torch.int32)]},
    ],
)
def test_memory_that_is_referred_to_is_left_alone(holder) -> None:  # type: ignore[no-untyped-def]  # lambdas
    tensor = empty((COUNT,), torch.float32)
    place = tensor.data_ptr()
    kept = holder(tensor)
    del tensor
    other = empty((COUNT,), torch.float32)
    assert other.data_ptr() != place
    del kept
    assert empty((COUNT,), torch.float32).data_ptr() == place


def test_another_size_gets_another_block() -> None:
    place = empty((COUNT,), torch.float32).data_ptr()
    assert len(gradient_memory._waiting) == 1
    large = empty((2 * COUNT,), torch.float32)
    large.fill_(1)
    assert large.nbytes == 2 * MIN_BYTES and gradient_memory._waiting == []
    del large
    # Far too large for what is wanted: not kept for it.
    small = empty((COUNT,), torch.float32)
    assert small.nbytes == MIN_BYTES and place


def test_at_most_one_block_waits() -> None:
    tensors = [empty((COUNT,), torch.float32) for _ in range(3)]
    del tensors
    assert len(gradient_memory._waiting) == 1
    forget()
    assert gradient_memory._waiting == []


def test_small_tensors_are_torchs_own() -> None:
    del_me = empty((10,), torch.float32)
    del del_me
    assert gradient_memory._waiting == []


def test_gradients_of_two_steps_do_not_share_memory_while_both_live() -> None:
    logits = torch.randn(64, MIN_BYTES // 4 // 64, requires_grad=True)
    targets = torch.zeros(64, dtype=torch.long)
    cross_entropy(logits, targets).backward()
    first = logits.grad
    assert first is not None
    copy, place = first.clone(), first.data_ptr()
    logits.grad = None
    cross_entropy(logits, (targets + 1)).backward()
    second = logits.grad
    assert second is not None and second.data_ptr() != place and torch.equal(first, copy)
    # The gradient is the very buffer, not a copy of it; and it comes back when it is let go.
    logits.grad = None
    del first, second
    cross_entropy(logits, targets).backward()
    assert logits.grad is not None and torch.equal(logits.grad, copy)


def test_where_the_system_cannot_advise_it_works_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gradient_memory.mmap, "MADV_HUGEPAGE", 12345, raising=False)
    monkeypatch.delattr(gradient_memory.mmap, "MADV_FREE", raising=False)
    assert empty((COUNT,), torch.float32).fill_(2)[-1] == 2
    monkeypatch.delattr(gradient_memory.mmap, "MAP_PRIVATE")
    assert empty((COUNT,), torch.float32).fill_(2)[-1] == 2
