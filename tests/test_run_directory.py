"""Names in a run directory, and where new ones go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lossleuth.run_directory import (
    RunDirectory,
    dated_directory,
    free_directory,
    has_record,
    of_bad_step,
    of_evaluations,
)
from lossleuth.types.errors import BadInput

PACKAGE = Path(__file__).parents[1] / "src" / "lossleuth"


def test_the_look_that_a_verdict_rests_on_is_found(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert run.look == tmp_path
    run.observed.mkdir()
    assert run.look == tmp_path / "observed"
    run.observed_by_hand.mkdir()
    assert run.look == tmp_path / "observed-by-hand"


def test_records_are_found_where_they_are_put(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    cured = [run.cured(number) for number in (1, 2, 10)]
    tried = [run.trials(0) / "000", run.trials(1) / "004", run.overfit / "006"]
    child = tmp_path / "processes" / "77"
    beside = of_bad_step(run.observed), of_evaluations(run.observed)
    for folder in (*cured, *tried, child, *beside):
        folder.mkdir(parents=True)
        (folder / "record.log").touch()
    run.cured(3).mkdir()
    assert run.cured_looks() == cured
    assert [log.parent for log in run.trial_records()] == tried
    assert [log.parent for log in run.process_records()] == [child]


def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    wanted = tmp_path / "run"
    assert free_directory(wanted) == wanted
    # Empty, it is free.
    assert free_directory(wanted) == wanted
    (wanted / "verdict.json").write_text("{}")
    assert free_directory(wanted) == tmp_path / "run-2"
    assert free_directory(wanted, has_record) == wanted
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="a file at"):
        free_directory(tmp_path / "file")


def test_a_record_is_never_overwritten(tmp_path: Path) -> None:
    first = free_directory(tmp_path / "run", has_record)
    (first / "record.log").touch()
    assert free_directory(tmp_path / "run", has_record) == tmp_path / "run-2"


def test_a_run_without_a_name_is_called_by_the_time() -> None:
    assert re.fullmatch(r"runs/\d{8}-\d{6}", dated_directory().as_posix())


def known_names(source: str) -> list[str]:
    """Names in a run directory that stand in code as they are."""
    names = "record.log|output.txt|ending.json|imports.json|verdict.json|examination.json"
    return re.findall(rf'"(?:[*/]*)(?:{names}|observed|observed-by-hand|processes)"', source)


def test_names_stand_in_one_file_only() -> None:
    found = {
        str(path.relative_to(PACKAGE)): known_names(path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
        if path.name != "run_directory.py"
    }
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("line", ['a / "record.log"', 'glob("*/record.log")', 'out / "observed"'])
def test_a_name_elsewhere_is_seen(line: str) -> None:
    assert known_names(line)
