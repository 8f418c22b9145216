"""What is laid out once for a list of parameters."""

from __future__ import annotations

import numpy as np
import torch

from lossleuth.native.blocks import BLOCK, WHOLE
from lossleuth.native.layout import Layout


def test_a_layout_fits_parameters_of_its_sizes_and_types_alone() -> None:
    layout = Layout([torch.ones(3), torch.ones(2)], every=8)
    assert layout.fits([torch.zeros(3), torch.zeros(2)])
    assert not layout.fits([torch.ones(2), torch.ones(3)])
    assert not layout.fits([torch.ones(3), torch.ones(2, dtype=torch.float64)])
    assert not layout.fits([torch.ones(3)])


def test_a_step_reads_one_block_in_each_group_of_a_large_tensor() -> None:
    layout = Layout([torch.ones(WHOLE), torch.ones(16 * BLOCK)], every=8)
    assert layout.is_whole(0) and not layout.is_whole(1)
    offsets, lengths = layout.spans_of(1, layout.spans_at(step=3))
    assert lengths.tolist() == [BLOCK, BLOCK]
    assert 0 <= offsets[0] < 8 * BLOCK <= offsets[1] < 16 * BLOCK
    assert not np.array_equal(offsets, layout.spans_of(1, layout.spans_at(step=4))[0])
    assert layout.after_elements == WHOLE + 2 * BLOCK


def test_nothing_is_measured_before_the_first_pass() -> None:
    layout = Layout([torch.ones(3)], every=1)
    assert np.isnan(layout.results).all()
    assert layout.view.tobytes() == layout.results.tobytes()
