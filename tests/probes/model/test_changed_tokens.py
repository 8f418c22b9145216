"""Tokens to put in the place of others."""

from __future__ import annotations

import pytest
import torch

from lossleuth.probes.model.changed_tokens import others_than
from lossleuth.tape.replay.errors import CannotReplay


def test_they_are_others_everywhere_and_occur_in_the_batch() -> None:
    tokens = torch.tensor([[3, 5, 3, 9], [5, 5, 9, 3]])
    changed = others_than(tokens, tokens[:, 1])
    assert bool((changed != tokens[:, 1]).all())
    assert set(changed.tolist()) <= {3, 5, 9}


def test_a_batch_of_one_token_has_no_other() -> None:
    with pytest.raises(CannotReplay):
        others_than(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, dtype=torch.long))
