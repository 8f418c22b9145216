"""The repaired network with a loss kernel that sums in halves (case 3).

Believed: float32 loses 1 to 5 % of a sum of 34 exponentials, and Kahan's summation is the cure.
True: the kernel's reduction halves a block as large as the vocabulary and drops what is left over
at an odd size. Repairs: reduction.

    python kahan.py [--steps N] [--seed N] [--repaired | --repair NAME ...]
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lossleuth.labs.cases.arguments import Arguments, read_arguments
from lossleuth.labs.cases.hand_written_stack import Transformer
from lossleuth.labs.cases.repaired_stack import REPAIRS as OF_THE_NETWORK
from lossleuth.labs.cases.repaired_stack import parts
from lossleuth.labs.cases.text import ALPHABET, SAMPLE, encode
from lossleuth.labs.cases.windows import Windows

LEARNING_RATE = 1e-3
REPAIRS = ("reduction",)


def block_sum(shared_NV: Tensor) -> Tensor:
    """The sum of each row, the upper half of the block added to the lower until one is left."""
    size = shared_NV.shape[1]
    while size > 1:
        half = size // 2
        shared_NV = shared_NV[:, :half] + shared_NV[:, half : 2 * half]
        size = half
    return shared_NV


def padded_block_sum(shared_NV: Tensor) -> Tensor:
    """The same on a block whose size is a power of two, filled up with zeros."""
    size = shared_NV.shape[1]
    room = 1 << (size - 1).bit_length()
    return block_sum(torch.nn.functional.pad(shared_NV, (0, room - size)))


class BlockLoss(Function):
    """Mean cross-entropy of rows of scores, its gradient by one block of threads a row."""

    @staticmethod
    def forward(ctx: Any, scores_NV: Tensor, targets_N: Tensor) -> Tensor:
        """The mean over the rows."""
        ctx.save_for_backward((scores_NV - scores_NV.amax(1, keepdim=True)).exp(), targets_N)
        return -scores_NV.log_softmax(-1).gather(1, targets_N[:, None]).mean()

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:  # noqa: D102
        total_N1 = block_sum(ctx.saved_tensors[0])
        return softmax_minus_one(ctx.saved_tensors, total_N1) * given, None


class PaddedBlockLoss(BlockLoss):
    """The same with the whole sum."""

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        """Softmax minus one at the target, over the number of rows."""
        total_N1 = padded_block_sum(ctx.saved_tensors[0])
        return softmax_minus_one(ctx.saved_tensors, total_N1) * given, None


def softmax_minus_one(saved: tuple[Tensor, Tensor], total_N1: Tensor) -> Tensor:
    """The gradient of the mean cross-entropy, from exponentials and their sum."""
    exponentials_NV, targets_N = saved
    delta_NV = exponentials_NV / total_N1
    delta_NV.scatter_add_(1, targets_N[:, None], -delta_NV.new_ones(len(targets_N), 1))
    return delta_NV / len(targets_N)


def train(arguments: Arguments) -> list[float]:
    """Train on the sample; the loss of each step."""
    torch.manual_seed(arguments.seed)
    windows = Windows(encode(SAMPLE))
    model = Transformer(len(ALPHABET), parts=parts(OF_THE_NETWORK))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    repaired = "reduction" in arguments.repaired
    kernel: Any = (PaddedBlockLoss if repaired else BlockLoss).apply
    reduced = padded_block_sum if repaired else block_sum
    losses = []
    for step in range(arguments.steps):
        inputs_BT, targets_BT = windows.batch(step)
        scores_BTV = model(inputs_BT)
        loss = kernel(scores_BTV.flatten(0, 1), targets_BT.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0:
            exponentials_NV = scores_BTV.detach().flatten(0, 1).softmax(-1)
            lost = 1 - reduced(exponentials_NV).mean().item()
            print(f"step {step + 1:4}  loss {sum(losses[-20:]) / 20:.4f}  lost {lost:.2%}")
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(read_arguments(__doc__ or "", REPAIRS, steps=400))
