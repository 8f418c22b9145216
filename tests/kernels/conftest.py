"""Every test of the statistics runs on the library and without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lossleuth.kernels import native

# Makes the helpers of this folder importable.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["native", "fallback"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which kernels the test runs on."""
    if request.param == "fallback":
        monkeypatch.setattr(native, "load", lambda: None)
    else:
        from needs import need_native

        need_native()
    return str(request.param)
