"""The process that is forked, spoken to by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def spoken(lines: list[object]) -> list[dict[str, object]]:
    """What it answers to these requests before its input ends."""
    said = subprocess.run(
        [sys.executable, "-m", "lossleuth.observe.child.fork_server_process"],
        input="".join(f"{json.dumps(line)}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_it_says_when_it_is_ready_and_leaves_with_its_input(tmp_path: Path) -> None:
    modules = ["json.decoder", "there_is_no_such_module"]
    assert spoken([{"script": str(tmp_path / "x.py"), "modules": modules, "own": []}]) == [
        {"state": "ready"}
    ]


def test_without_a_request_it_says_nothing() -> None:
    assert spoken([]) == []


def test_a_module_of_the_user_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("print('noise on standard output')")
    (said,) = spoken([{"script": str(tmp_path / "x.py"), "modules": ["mine"], "own": []}])
    assert "mine" in str(said["state"])
