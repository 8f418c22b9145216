"""Devices and formats."""

from __future__ import annotations

import pytest
import torch

from lossleuth.reference.train.precision import autocast, choose_device, device_at_hand
from lossleuth.types.errors import BadInput


def test_bfloat16_acts_on_matrix_products_only_where_asked_for() -> None:
    a = torch.ones(2, 2)
    with autocast(torch.device("cpu"), "bfloat16"):
        assert (a @ a).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "float32"):
        assert (a @ a).dtype == torch.float32


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="use --device cpu"):
        choose_device("cuda")
    assert choose_device("auto").type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_model_trained_on_cuda_is_used_on_the_cpu_with_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert device_at_hand("cuda").type == "cpu"
    assert capsys.readouterr().err.count("note: trained on CUDA, which is not there") == 1
    assert device_at_hand("auto").type == "cpu"
    assert capsys.readouterr().err == ""
