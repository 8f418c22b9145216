"""A step with two losses: one may look ahead, and the other must not."""

from __future__ import annotations

import pytest
import torch
from steps import VOCABULARY, SmallModel, batch, recorded_step
from torch import Tensor
from torch.nn import functional as F

from lossleuth.findings.data import Alignment
from lossleuth.findings.model import Leaks
from lossleuth.probes.run import run_probes

MASKED = VOCABULARY - 1


def found(*, causal: bool) -> tuple[Leaks, Alignment]:
    """A masked encoder beside a causal decoder, which is the smaller of the two."""
    torch.manual_seed(2)
    encoder, source = SmallModel(), batch(6)
    encoder.causal = False
    hidden = torch.arange(9) % 3 == 1

    def loss(model: SmallModel, tokens: Tensor) -> Tensor:
        model.causal = causal
        logits = model(tokens[:, :-1])
        follows = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        guesses = encoder(torch.where(hidden, MASKED, source))
        return follows + F.cross_entropy(guesses.flatten(0, 1), source.flatten())

    step = run_probes(recorded_step(loss))

    leaks, aligned = step.first(Leaks), step.first(Alignment)
    assert leaks is not None and aligned is not None
    return leaks, aligned


@pytest.mark.parametrize("causal", [True, False])
def test_the_leak_is_that_of_the_loss_for_the_next_token(*, causal: bool) -> None:
    leaks, aligned = found(causal=causal)
    assert aligned.offset == 1
    assert (leaks.future == 0) is causal
