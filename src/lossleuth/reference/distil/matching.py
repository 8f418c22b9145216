"""Losses of what is inside: hidden states, attention, and a contrastive one.

Teacher and student may differ in width and heads. A projector that is trained stands on the
*student's* side, never between the teacher and the target: a target that can be trained collapses
onto the student, and the loss falls to 0 with a teacher of noise.

    B  batch   T  position   D  student's width   E  teacher's width
    H  student's heads   G  teacher's heads   n  supervised positions
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.reference.train.data import IGNORED
from lossleuth.reference.train.loss import NoSupervisedToken

CONTRAST = 0.1


class WidthProjector(nn.Module):
    """A matrix from the student's width to the teacher's.

    >>> WidthProjector(4, 6)(torch.zeros(2, 4)).shape
    torch.Size([2, 6])
    """

    def __init__(self, student: int, teacher: int) -> None:
        super().__init__()
        self.matrix = nn.Linear(student, teacher, bias=False)

    def forward(self, hidden_nD: Tensor) -> Tensor:
        """The student's states in the teacher's width."""
        projected: Tensor = self.matrix(hidden_nD)
        return projected


class HeadMixer(nn.Module):
    """Each of the teacher's heads as a mixture of the student's: mixtures of rows that sum to 1
    sum to 1 again.

    >>> rows = torch.full((1, 2, 5), 0.2)
    >>> HeadMixer(2, 3)(rows).sum(-1).round(decimals=6).tolist()
    [[1.0, 1.0, 1.0]]
    """

    def __init__(self, student: int, teacher: int) -> None:
        super().__init__()
        # Head g starts as mostly the student's head g, so that heads begin apart.
        start_GH = torch.zeros(teacher, student)
        start_GH[torch.arange(teacher), torch.arange(teacher) % student] = 2.0
        self.shares_GH = nn.Parameter(start_GH)

    def forward(self, attention_nHT: Tensor) -> Tensor:
        """Attention of the teacher's heads, as far as the student's can make it."""
        mixed: Tensor = torch.einsum("gh,nht->ngt", self.shares_GH.softmax(-1), attention_nHT)
        return mixed


def hidden_matching(
    student_BTD: Tensor,
    teacher_BTE: Tensor,
    projector: nn.Module,
    targets_BT: Tensor,
    *,
    tokens: int | None = None,
) -> Tensor:
    """Mean squared difference of normalised states, mean over supervised tokens.

    Both sides are normalised, so that the size of a stream, which the next layer's norm takes out
    again, costs nothing. It is 0 where they agree and 2 where they have nothing to do with each
    other.

    >>> states, targets = torch.randn(1, 3, 8), torch.tensor([[1, 2, IGNORED]])
    >>> hidden_matching(3 * states, states, nn.Identity(), targets).item() < 1e-6
    True
    """
    kept_BT, count = _supervised(targets_BT, tokens)
    ours_nE = projector(student_BTD[kept_BT])
    theirs_nE = teacher_BTE.detach()[kept_BT].to(ours_nE.dtype)
    gap_nE = _normalised(ours_nE) - _normalised(theirs_nE)
    return gap_nE.square().mean(-1).sum() / count


def attention_matching(
    student_BHTT: Tensor,
    teacher_BGTT: Tensor,
    mixer: nn.Module,
    targets_BT: Tensor,
    *,
    tokens: int | None = None,
) -> Tensor:
    """KL(teacher ‖ student) of where a position looks, mean over heads and supervised tokens.

    What a position cannot see has probability 0 on both sides and costs nothing.

    >>> seen, targets = torch.eye(3).expand(1, 2, 3, 3), torch.tensor([[1, 2, IGNORED]])
    >>> attention_matching(seen, seen, nn.Identity(), targets).item()
    0.0
    """
    kept_BT, count = _supervised(targets_BT, tokens)
    ours_nGT = mixer(student_BHTT.transpose(1, 2)[kept_BT])
    p_nGT = teacher_BGTT.detach().transpose(1, 2)[kept_BT].to(ours_nGT.dtype)
    seen = p_nGT > 0
    # Filled before the logarithm: its slope at 0 would turn a masked 0 into NaN.
    ratio_nGT = p_nGT.masked_fill(~seen, 1.0).log() - ours_nGT.masked_fill(~seen, 1.0).log()
    loss: Tensor = (p_nGT * ratio_nGT).sum(-1).mean(-1).sum() / count
    return loss


def contrastive(
    student_BTD: Tensor,
    teacher_BTE: Tensor,
    projector: nn.Module,
    targets_BT: Tensor,
    *,
    contrast: float = CONTRAST,
    tokens: int | None = None,
) -> Tensor:
    """Cross-entropy of finding the teacher's state of the same token among those of the batch.

    A student that tells nothing apart has ln n. Similarity is the cosine over `contrast`.

    >>> states, targets = torch.eye(4)[None], torch.ones(1, 4, dtype=torch.long)
    >>> round(contrastive(torch.ones(1, 4, 4), states, nn.Identity(), targets).item(), 4)
    1.3863
    """
    kept_BT, count = _supervised(targets_BT, tokens)
    ours_nE = F.normalize(projector(student_BTD[kept_BT]), dim=-1)
    theirs_nE = F.normalize(teacher_BTE.detach()[kept_BT].to(ours_nE.dtype), dim=-1)
    similar_nn = ours_nE @ theirs_nE.T / contrast
    right_n = torch.arange(len(similar_nn), device=similar_nn.device)
    return F.cross_entropy(similar_nn, right_n, reduction="sum") / count


def paired_layers(student: int, teacher: int) -> list[int]:
    """The teacher's layer for each of the student's, evenly spread, last with last.

    >>> paired_layers(2, 6), paired_layers(3, 3), paired_layers(4, 2)
    ([2, 5], [0, 1, 2], [0, 0, 1, 1])
    """
    return [-(-(i + 1) * teacher // student) - 1 for i in range(student)]


def _normalised(states_nE: Tensor) -> Tensor:
    return F.layer_norm(states_nE, states_nE.shape[-1:])


def _supervised(targets_BT: Tensor, tokens: int | None) -> tuple[Tensor, int]:
    kept_BT = targets_BT != IGNORED
    count = int(kept_BT.sum()) if tokens is None else tokens
    if not count:
        raise NoSupervisedToken(
            f"expected at least one supervised token, found none in a batch of "
            f"{tuple(targets_BT.shape)}: every target is {IGNORED}"
        )
    return kept_BT, count
