"""The references in the chart of a run."""

from __future__ import annotations

from pathlib import Path

from lossleuth.examiner.saved_examination import SavedExamination, SavedLook
from lossleuth.report.document.references import NGRAMS, TRANSFORMER, references
from lossleuth.run_directory import RunDirectory
from lossleuth.types.phases import Phase
from lossleuth.types.yardstick import Yardstick

MADE = Yardstick(steps=(0, 1), losses=(3.0, 2.0), mixture_steps=(0,), mixture=(3.5,))


def test_phases_follow_each_other(tmp_path: Path) -> None:
    looks = [
        SavedLook(["observed"], phase=Phase(1, 2, 0, 29), yardstick=MADE),
        SavedLook(["observed"], phase=Phase(2, 2, 30, 59), yardstick=MADE),
        SavedLook(["cured1"]),
    ]
    SavedExamination(looks).write(RunDirectory(tmp_path))
    found = {name: (xs.tolist(), ys.tolist()) for name, (xs, ys) in references(tmp_path).items()}
    assert found == {
        TRANSFORMER: ([0.0, 1.0, 30.0, 31.0], [3.0, 2.0, 3.0, 2.0]),
        NGRAMS: ([0.0, 30.0], [3.5, 3.5]),
    }


def test_a_run_without_them_has_none(tmp_path: Path) -> None:
    assert references(tmp_path) == {}
    SavedExamination([SavedLook(["observed"])]).write(RunDirectory(tmp_path))
    assert references(tmp_path) == {}
    RunDirectory(tmp_path).examination.write_text("{}")
    assert references(tmp_path) == {}
