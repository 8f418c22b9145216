"""Programs with kernels outside torch in their path, from end to end: found, named, or quiet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import forward_kernels
import pytest
from outside_kernels import compiled

PROGRAM = Path(__file__).parents[1] / "programs" / "outside_torch.py"
FORWARD = PROGRAM.with_name("outside_forward.py")
THERE = {"proven", "suspected", "benign"}
# Enough for the trials on a machine that is busy with others.
BUDGET = "600"


def examined(
    out: Path, *arguments: str, options: tuple[str, ...] = (), program: Path = PROGRAM
) -> dict[str, Any]:
    """The verdict on the program with these arguments."""
    command = [sys.executable, "-m", "lossleuth", "run", "--budget", BUDGET, *options]
    command += ["--out", str(out), str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = dict(json.loads((out / "verdict.json").read_text()))
    assert found["errored"] == []
    return found


def cause(found: dict[str, Any], identifier: str) -> dict[str, Any]:
    (one,) = [cause for cause in found["causes"] if cause["id"] == identifier]
    return dict(one)


@pytest.mark.slow
def test_a_sign_that_is_wrong_on_few_numbers_is_proven_and_its_library_named(
    tmp_path: Path,
) -> None:
    library = compiled(tmp_path)
    wrong = cause(examined(tmp_path / "out", library, "small"), "wrong_backward")
    assert wrong["status"] == "proven"
    assert wrong["where"] == {"file": library, "line": None, "module": "TanhInC"}
    assert wrong["wrongness"]["value"] == pytest.approx(2.0, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("tail", "TanhInC gives for 3 of 18 columns (the first is column 15) of input 1"),
        ("row", "TanhInC gives for 1 of 128 rows (the first is row 3) of input 1"),
        # The last 4 of 16 queries, and the first: it sees but itself, and rightly gets 0.
        ("queries", "AttentionInC gives for 40 of 128 rows (the first is row 0) of input 1"),
    ],
)
def test_what_a_backward_leaves_out_is_found_and_named(
    tmp_path: Path, fault: str, words: str
) -> None:
    library = compiled(tmp_path)
    found = examined(tmp_path / "out", library, fault, options=("--no-trials",))
    wrong = cause(found, "wrong_backward")
    assert wrong["status"] in THERE
    assert words in wrong["because"]
    assert wrong["where"]["file"] == library
    assert {one["id"] for one in found["causes"]} == {"wrong_backward"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "fault", "words"),
    [
        (
            "linear",
            "tail",
            "LinearInC gives for 4 of 24 columns (the first is column 20) of result 1",
        ),
        ("linear", "inner", "for the last of 18 columns of input 1"),
    ],
)
def test_a_forward_that_leaves_out_what_its_backward_is_of_is_proven_and_named(
    tmp_path: Path, of: str, fault: str, words: str
) -> None:
    library = forward_kernels.compiled(tmp_path)
    found = examined(tmp_path / "out", library, of, fault, program=FORWARD)
    wrong = cause(found, "wrong_backward")
    assert (wrong["status"], wrong["where"]["file"]) == ("proven", library)
    assert f"LinearInC gives {words}" in wrong["because"]
    # What was changed for the trial is no fault of the program's.
    assert [one["id"] for one in found["causes"] if one["status"] == "proven"] == ["wrong_backward"]


@pytest.mark.slow
def test_a_forward_with_a_backward_of_its_own_is_no_wrong_gradient(tmp_path: Path) -> None:
    arguments = (forward_kernels.compiled(tmp_path), "linear", "tail", "consistent")
    found = examined(tmp_path / "out", *arguments, options=("--no-trials",), program=FORWARD)
    assert found["causes"] == [] and "wrong_backward" in found["refuted"]


@pytest.mark.slow
def test_a_kernel_that_reads_the_next_position_is_a_proven_leak(tmp_path: Path) -> None:
    for where in ("numpy", compiled(tmp_path)):
        found = examined(tmp_path / Path(where).stem, where, "leak", options=("--no-trials",))
        leak = cause(found, "future_leak")
        assert leak["status"] == "proven"
        line = PROGRAM.read_text().splitlines()[leak["where"]["line"] - 1]
        assert leak["where"]["file"] == str(PROGRAM) and "tanh(self.up(h))" in line
        assert "wrong_backward" in found["refuted"]


@pytest.mark.slow
def test_healthy_twins_are_healthy(tmp_path: Path) -> None:
    for where in ("numpy", compiled(tmp_path)):
        found = examined(tmp_path / Path(where).stem, where)
        assert (found["status"], found["causes"]) == ("healthy", [])
        judged = {"wrong_backward", "future_leak", "batch_leak", "input_ignored", "graph_cut"}
        assert judged <= set(found["refuted"])
