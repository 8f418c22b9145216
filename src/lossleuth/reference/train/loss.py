"""The one loss: unsmoothed cross-entropy per supervised token."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from lossleuth.kernels import cross_entropy
from lossleuth.kernels.loss_interface import Reduction
from lossleuth.kernels.row_losses import NATIVE
from lossleuth.native import library as native
from lossleuth.reference.train.data import IGNORED


class NoSupervisedToken(ValueError):
    """A mean over no tokens is not 0 and not NaN: it does not exist."""


def is_ours(kernel: str, logits: Tensor) -> bool:
    """Whether `lossleuth.kernels` compute the loss of these logits.

    >>> import torch
    >>> is_ours("auto", torch.zeros(2, 3)), is_ours("auto", torch.zeros(2, 3).double())
    (True, False)
    """
    if kernel == "auto":
        return logits.is_cpu and logits.dtype in NATIVE
    return kernel == "lossleuth"


def who_computes(kernel: str, device: str) -> str:
    """Who computes the loss of a run on a device, told plainly.

    >>> who_computes("auto", "cuda")
    "loss: computed by torch's cross_entropy"
    """
    if kernel == "torch" or (kernel == "auto" and device != "cpu"):
        return "loss: computed by torch's cross_entropy"
    absent = native.why_absent()
    how = "native" if absent is None and device == "cpu" else "without the native library"
    return f"loss: computed by lossleuth.kernels, {how}"


def token_losses(logits_BTV: Tensor, targets_BT: Tensor, kernel: str = "auto") -> Tensor:
    """Cross-entropy of each position in nats, 0 where it is not supervised.

    >>> import torch
    >>> token_losses(torch.zeros(1, 2, 4), torch.tensor([[3, IGNORED]]))
    tensor([[1.3863, 0.0000]])
    """
    return _cross_entropy(logits_BTV, targets_BT, "none", kernel).view_as(targets_BT)


def mean_loss(
    logits_BTV: Tensor, targets_BT: Tensor, tokens: int | None = None, kernel: str = "auto"
) -> Tensor:
    """Summed cross-entropy over `tokens`, by default the supervised tokens of this batch.

    With gradient accumulation, `tokens` is the count of the whole step: then micro-batches of
    unequal size weigh as their tokens do, and the sum over them is the loss of the whole batch.
    """
    own = supervised_count(targets_BT)
    count = own if tokens is None else tokens
    if not count:
        raise NoSupervisedToken(
            f"expected at least one supervised token, found none in a batch of "
            f"{tuple(targets_BT.shape)}: every target is {IGNORED}"
        )
    if count == own and is_ours(kernel, logits_BTV):
        # Their gradient is of the mean already: nothing is left to do in the backward pass.
        return _cross_entropy(logits_BTV, targets_BT, "mean", kernel)
    return _cross_entropy(logits_BTV, targets_BT, "sum", kernel) / count


def supervised_count(targets_BT: Tensor) -> int:
    """Positions whose target counts.

    >>> import torch
    >>> supervised_count(torch.tensor([[3, IGNORED]]))
    1
    """
    return int((targets_BT != IGNORED).sum())


def _cross_entropy(
    logits_BTV: Tensor, targets_BT: Tensor, reduction: Reduction, kernel: str
) -> Tensor:
    logits_NV, targets_N = logits_BTV.flatten(0, 1), targets_BT.flatten()
    if is_ours(kernel, logits_BTV):
        return cross_entropy(logits_NV, targets_N, ignore_index=IGNORED, reduction=reduction)
    # A loss in half a float32's digits is no loss curve; ours is float32 whatever the logits are.
    wide = logits_NV.float() if logits_NV.dtype.itemsize < 4 else logits_NV
    return F.cross_entropy(wide, targets_N, ignore_index=IGNORED, reduction=reduction)
