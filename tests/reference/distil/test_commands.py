"""The verb from its options to its files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lossleuth.reference.distil.commands import run_distillation, with_absolute_models
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.state import load_state
from lossleuth.settings import resolve
from lossleuth.types.errors import BadInput


def options(settings: DistilSettings, **changes: Any) -> dict[str, Any]:
    default = DistilSettings()
    given = {k: v for k, v in asdict(settings).items() if v != getattr(default, k)}
    return given | changes


def distil(given: dict[str, Any], out: Path | None = None, **more: Any) -> None:
    flags = {"overwrite": False, "record": False, "control": False} | more
    resume = flags.pop("resume", None)
    run_distillation(given, out, None, resume, **flags)


def test_a_run_its_control_and_its_continuation(
    settings: DistilSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    distil(options(settings), tmp_path / "run", control=True)
    shown = capsys.readouterr().out
    assert "control: " in shown and "with a shuffled one" in shown
    distil({"steps": 10}, resume=tmp_path / "run")
    assert load_state(tmp_path / "run").progress.step == 10


def test_a_run_is_not_overwritten_unless_asked(settings: DistilSettings, tmp_path: Path) -> None:
    distil(options(settings, steps=1), tmp_path / "run")
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    with pytest.raises(BadInput, match=r"a directory without a run, found distil\.safetensors"):
        distil(options(settings, steps=1), tmp_path / "run")
    distil(options(settings, steps=2), tmp_path / "run", overwrite=True)
    assert load_state(tmp_path / "run").progress.step == 2


@pytest.mark.parametrize("more", [{"out": Path("elsewhere")}, {"overwrite": True}])
def test_a_resumed_run_stays_where_it_is(
    settings: DistilSettings, tmp_path: Path, more: dict[str, Any]
) -> None:
    distil(options(settings, steps=1), tmp_path / "run")
    with pytest.raises(BadInput, match="neither --out nor --overwrite with --resume"):
        distil({"steps": 2}, resume=tmp_path / "run", **more)


def test_models_that_are_files_get_absolute_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    given = {"teacher": "run", "student": "models:make"}
    values = with_absolute_models(resolve(DistilSettings, options=given)).values
    assert (values.teacher, values.student) == (str(tmp_path / "run"), "models:make")
