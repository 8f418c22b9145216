"""Gradients of a user's file, checked in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lossleuth.agents.gradient_child import as_json, checked
from lossleuth.types.errors import BadInput

GUIDE = Path(__file__).parents[2] / "docs" / "reference" / "mcp.md"
FILE = """
import numpy as np

print("imported")

def loss(w, b):
    return float((w**2).sum() + b.sum())

def gradient(w, b):
    print("asked")
    return [2 * w, np.ones_like(b)]

def wrong(w, b):
    return [2.02 * w, np.ones_like(b)]

def broken(w, b):
    raise ValueError("no\\nsuch thing")

def parameters():
    return {"w": np.array([1.0, -3.0]), "b": np.array([0.5])}

listed = [np.array([1.0, -3.0]), np.array([0.5])]
one = np.array([1.0])

if __name__ == "__main__":
    raise SystemExit("not to be run")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("parameters", ["parameters", "listed"])
def test_a_right_gradient_passes(file: Path, parameters: str) -> None:
    found = as_json(checked(file, "loss", "gradient", parameters))
    assert (found["outcome"], found["wrong"]) == ("pass", [])
    assert found["whole"]["error"] < 1e-6


def test_a_wrong_one_fails_for_its_parameter(file: Path) -> None:
    found = as_json(checked(file, "loss", "wrong", "parameters"))
    assert (found["outcome"], found["wrong"]) == ("fail", ["w"])
    assert [part["outcome"] for part in found["parts"] if part["name"] == "w"] == ["fail"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("lost", "gradient", "parameters"), "expected lost in mine.py, found .*loss, gradient"),
        (("one", "gradient", "parameters"), "a function one, found a ndarray"),
        (("loss", "gradient", "one"), "a list of tensors or arrays in one, found a ndarray"),
        (("loss", "broken", "listed"), "found ValueError at line 17: no such thing"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(
    file: Path, names: tuple[str, str, str], said: str
) -> None:
    with pytest.raises(BadInput, match=said) as refusal:
        checked(file, *names)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:", "SyntaxError"),
        ("import no_such_thing", "ModuleNotFoundError at line 1"),
        ("raise SystemExit(3)", "SystemExit at line 1: 3"),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(BadInput, match=said):
        checked(path, "loss", "gradient", "parameters")


def test_the_example_of_the_guide_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    (example,) = [block for block in blocks if "def gradient" in block]
    (tmp_path / "mine.py").write_text(example)
    found = checked(tmp_path / "mine.py", "loss", "gradient", "parameters")
    assert found.outcome.value == "pass"


def test_the_process_prints_the_answer_alone(file: Path) -> None:
    command = [sys.executable, "-P", "-m", "lossleuth.agents.gradient_child", str(file)]
    done = subprocess.run([*command, "loss", "gradient", "listed"], capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (0, "pass")
    assert "imported" in done.stderr
