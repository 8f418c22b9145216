"""What the commands of a verdict do."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from small_examinations import says

from lossleuth.catalogue import HEADINGS, causes
from lossleuth.examiner.commands import (
    as_json,
    examine_script,
    explained,
    listed,
)
from lossleuth.examiner.rejudge import rejudge
from lossleuth.judge.verdict import Verdict
from lossleuth.record.write import RecordWriter
from lossleuth.types.change import Change as Changed
from lossleuth.types.change import Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Status


def falling(folder: Path) -> Path:
    writer = RecordWriter.create(folder / "observed", {"script": "train.py"}, print)
    for step in range(20):
        writer.step({"step": step, "loss": 3.0 - 0.1 * step, "rates": [0.1]}, None)
    writer.end({"how": "stopped"})
    return folder


def test_a_saved_record_is_judged_again_without_torch(tmp_path: Path) -> None:
    run = falling(tmp_path / "run")
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from lossleuth.examiner.rejudge import rejudge\n"
        "from lossleuth.examiner.commands import as_json\n"
        f"print(as_json(rejudge(Path({str(run)!r}))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["steps"] == 20
    assert set(found["details"]) == {c.id for c in causes()}
    assert found["errored"] == []
    # Nothing was probed: nothing may be called proven, or healthy.
    assert found["status"] == "cannot_tell"


def test_a_watched_run_is_judged_as_well(tmp_path: Path) -> None:
    run = falling(tmp_path / "run") / "observed"
    assert rejudge(run).steps == 20
    with pytest.raises(BadInput):
        rejudge(tmp_path / "gone")


def test_a_verdict_with_infinities_is_printed_as_strict_json() -> None:
    harm = Effect(Changed.of("hold_lr"), math.inf, 0.0, 3, 20, math.inf, 2.0, math.nan)
    verdict = Verdict("proven", {"a": says(Status.PROVEN, harm=harm)}, ["a"], 20, 1.0)
    assert json.loads(as_json(verdict)) == verdict.as_json()


def test_every_cause_is_listed_with_what_it_needs() -> None:
    lines = listed()
    assert len(lines) == len(causes())
    assert lines[0].split()[:2] == [causes()[0].stage.value, causes()[0].id]
    assert all("(needs " in line and "(needs )" not in line for line in lines)


def test_a_page_is_printed_whole() -> None:
    assert all(heading in explained("label_offset") for heading in HEADINGS)
    with pytest.raises(BadInput, match="the id of a cause"):
        explained("nonsense")


@pytest.mark.parametrize(
    ("text", "only", "said"),
    [
        (None, [], "no file at"),
        ("def f(:", [], "cannot parse"),
        ("x = 1", ["bad_luck"], "ids of causes"),
    ],
)
def test_what_cannot_be_examined_is_refused_before_anything_runs(
    tmp_path: Path, text: str | None, only: list[str], said: str
) -> None:
    if text is not None:
        (tmp_path / "train.py").write_text(text)
    with pytest.raises(BadInput, match=said):
        examine_script(tmp_path / "train.py", [], out=tmp_path / "out", only=only)
    assert not (tmp_path / "out").exists()


def test_a_script_without_torch_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("print('hello')")
    with pytest.raises(BadInput, match="it ended with: hello"):
        examine_script(tmp_path / "train.py", [], out=tmp_path / "out", quiet=True)
    assert capsys.readouterr().err == ""
