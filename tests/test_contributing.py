"""The worked examples of CONTRIBUTING.md: a copy of the repository, with them added, is sound."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n# (file|append to): (\S+)\n(.*?)```", re.S)


def examples() -> list[tuple[str, str, str]]:
    """What is done with a file, its path, and the text."""
    return BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources and tests with the examples in."""
    copy = tmp_path_factory.mktemp("house")
    for folder in ("src", "tests", "bench"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for action, name, text in examples():
        path = copy / name
        assert path.exists() is (action == "append to"), name
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    return copy


def run(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(house / "src")}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=house,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_cause_is_its_file_its_test_and_a_fault_and_a_probe_its_finding_itself_and_its_test() -> (
    None
):
    done = [(action, Path(name).parts[:2]) for action, name, _ in examples()]
    assert sorted(done) == sorted(
        [
            ("file", ("src", "lossleuth")),
            ("file", ("tests", "causes")),
            ("append to", ("src", "lossleuth")),
            ("file", ("src", "lossleuth")),
            ("file", ("src", "lossleuth")),
            ("file", ("tests", "probes")),
        ]
    )


def test_the_new_cause_is_found_by_itself(house: Path) -> None:
    listed = run(house, "lossleuth", "causes")
    assert "logits_far_apart" in listed.stdout, listed.stderr


def test_the_examples_pass_their_own_tests_and_those_of_every_unit(house: Path) -> None:
    files = [name for action, name, _ in examples() if name.startswith("tests/")]
    contract = [
        *("tests/causes/test_every_cause.py", "tests/probes/test_probe.py"),
        *("tests/test_layers.py", "tests/test_contract.py"),
    ]
    words = "logits_far_apart or logit_spread or every_kind or every_probe"
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    own = run(house, "pytest", *options, *files)
    assert own.returncode == 0, own.stdout
    whole = run(house, "pytest", *options, "-k", words, *contract, "tests/probes/test_run.py")
    assert whole.returncode == 0, whole.stdout


def test_the_examples_are_typed_and_in_the_house_style(house: Path) -> None:
    files = [name for _, name, _ in examples()]
    assert run(house, "ruff", "check", *files).stdout.strip() == "All checks passed!"
    assert run(house, "ruff", "format", "--check", *files).returncode == 0
