"""The error of a replay."""

from __future__ import annotations

import pytest
import torch

from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay


def test_the_reason_names_the_operation_its_line_and_what_went_wrong() -> None:
    capture, x = Capture(), torch.ones(4)
    with capture:
        out = x.view(2, 2).sum()
    given, made = capture.known(x), capture.known(out)
    assert given is not None and made is not None
    other = {given: torch.ones(5, dtype=torch.float64)}
    with pytest.raises(CannotReplay) as caught:
        Replay(capture.tape).run([made], leaves=other)
    assert str(caught.value).startswith(f"view at {__file__}:16: RuntimeError: ")
