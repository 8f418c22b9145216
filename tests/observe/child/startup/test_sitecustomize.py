"""The start-up hook of child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lossleuth.observe.request import STARTUP_FOLDER


def run(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([STARTUP_FOLDER, str(folder)])
    return subprocess.run(
        [sys.executable, "-c", "import os; print(os.environ.get('SEEN'))"],
        env=os.environ | {"PYTHONPATH": paths} | variables,
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_sitecustomize_of_the_users_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['SEEN'] = 'yes'")
    assert run(tmp_path).stdout == "yes\n"


def test_a_broken_order_is_said_and_the_process_goes_on(tmp_path: Path) -> None:
    output = run(tmp_path, LOSSLEUTH_WATCH="[]")
    assert output.stdout == "None\n"
    assert "this process is not watched" in output.stderr
