"""What a test needs of the machine."""

from __future__ import annotations

import pytest

from lossleuth.native import library as native


def need_native() -> None:
    """Skip where there is no library, and say why."""
    if native.why_absent() is not None:
        pytest.skip(f"no native library: {native.why_absent()}")
