"""What `lossleuth doctor` says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lossleuth import doctor
from lossleuth.doctor import findings


def test_versions_threads_devices_kernels_and_directory_are_told(tmp_path: Path) -> None:
    found = dict(findings(tmp_path / "runs"))
    assert found["torch"] == torch.__version__
    assert found["threads"].startswith(str(torch.get_num_threads()))
    assert "cpu" in found["devices"]
    assert found["native kernels"] == "present" or found["native kernels"].startswith("absent, ")
    assert found["run directory"].endswith("is writable")
    assert not (tmp_path / "runs").exists()


def test_kernels_that_are_switched_off_are_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "switched off by LOSSLEUTH_NATIVE=0"
    monkeypatch.setattr(doctor, "why_absent", lambda: reason)
    found = dict(findings(tmp_path / "runs"))
    assert found["native kernels"] == f"absent, using torch: {reason}"


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = dict(findings(tmp_path / "file" / "runs"))
    assert "expected a directory that can be written to" in found["run directory"]
