"""The command: what it takes, what it refuses, and both of its forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossleuth.labs.precision import commands
from lossleuth.labs.precision.commands import PARTS, run_precision
from lossleuth.labs.precision.step import Step
from lossleuth.record.write import RecordWriter
from lossleuth.types.errors import BadInput


def told(source: Path | None = None, **changes: Any) -> list[str]:
    options: dict[str, Any] = {
        "case": None,
        "targets": None,
        "vocabulary": 34,
        "rows": 50,
        "dtype": "float32",
        "seed": 0,
        "only": (),
        "as_json": False,
    }
    lines: list[str] = []
    run_precision(source, **options | changes, show=lines.append)
    return lines


def test_without_a_source_all_parts_are_told_of_a_grid() -> None:
    lines = told()
    text = "\n".join(lines)
    for words in ("Sum of float32", "Softmax and gradient", "Range: ", "Central differences"):
        assert words in text
    assert max(map(len, lines)) <= 80


def test_the_same_as_json(tmp_path: Path) -> None:
    (line,) = told(as_json=True)
    found = json.loads(line)
    assert list(found) == ["reference", "step", *PARTS]
    assert found["sums"][0]["name"] == "naive" and 0 < found["sums"][0]["error"] < 33 * 2**-24
    assert found["sums"][0]["verdict"] == "irrelevant below the step's own noise"
    assert found["range"]["classes"][0]["formats"][0]["format"] == "float16"
    assert found["differences"]["points"][5]["epsilon"] == pytest.approx(1e-5)
    assert found["step"]["noise"]["update"] > 0


@pytest.mark.parametrize("part", PARTS)
def test_one_part_can_be_asked_for(part: str) -> None:
    (line,) = told(only=(part,), as_json=True)
    assert list(json.loads(line)) == ["reference", "step", part]


def test_logits_of_a_file_are_looked_at(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 8), np.float32))
    np.save(tmp_path / "y.npy", np.array([0, 1, 2, 3]))
    lines = told(tmp_path / "x.npy", targets=tmp_path / "y.npy", only=("sums",))
    assert lines[0].startswith("4 of 4 rows of x.npy, V = 8")


def test_a_watched_run_has_its_range_told(tmp_path: Path) -> None:
    writer = RecordWriter.create(tmp_path / "run", {"script": "train.py"}, warn=print)
    writer.parameters(["wte"], [4], ["grad_max"])
    writer.step({"step": 0, "loss": 1.0}, np.array([[0.5]]))
    writer.end({"how": "exit"})
    assert "no logits" in told(tmp_path / "run")[0]
    found = json.loads(told(tmp_path / "run", as_json=True)[0])
    assert found["range"][0]["largest"] == 0.5


def test_the_case_has_its_claims_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    real = commands.kahan_step

    def short() -> Step:
        return real(1)

    monkeypatch.setattr(commands, "kahan_step", short)
    found = json.loads(told(case="kahan", only=("sums",), as_json=True)[0])
    assert [claim["verdict"] for claim in found["claims"]] == ["refuted"] * 5
    assert "case kahan after 1 steps" in found["step"]["source"]


@pytest.mark.parametrize(
    ("source", "changes", "reason"),
    [
        (None, {"case": "rising_loss"}, r"a case about precision \(kahan\), found rising_loss"),
        ("here", {"case": "kahan"}, "a case or a source of logits"),
        (None, {"only": ("magic",)}, "one of sums, formats, range, differences for --only"),
        (None, {"dtype": "int8"}, "one of float16, bfloat16, float32, float64 for --dtype"),
        (None, {"targets": "y.npy"}, "--targets with logits in an .npy file, found no file"),
        ("absent.npy", {}, "nothing at"),
        ("here", {}, "found"),
        ("here/text.txt", {}, "a lossleuth checkpoint"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_in_one_sentence(
    tmp_path: Path, source: str | None, changes: dict[str, Any], reason: str
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "text.txt").write_text("no checkpoint")
    where = None if source is None else tmp_path / source
    with pytest.raises(BadInput, match=reason) as refusal:
        told(where, **changes)
    assert "\n" not in str(refusal.value)
