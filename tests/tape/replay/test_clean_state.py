"""A neutral state."""

from __future__ import annotations

import pytest
import torch

from lossleuth.tape.replay.clean_state import neutral


def test_everything_is_neutral_inside_and_as_before_outside() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with torch.inference_mode(), torch.autocast("cpu"):
        with neutral(float64=True, gradients=True):
            assert torch.is_grad_enabled()
            assert not torch.is_inference_mode_enabled()
            assert not torch.is_autocast_enabled("cpu")
            assert torch.tensor(1.0).dtype is torch.float64
            torch.rand(3)
        assert torch.is_inference_mode_enabled()
        assert torch.is_autocast_enabled("cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_default_dtype() is torch.float32


def test_an_error_inside_changes_nothing_outside() -> None:
    with pytest.raises(ValueError, match="inside"), neutral(float64=True, gradients=False):
        raise ValueError("inside")
    assert torch.get_default_dtype() is torch.float32
