"""The script's own process is as Python would make it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lossleuth.observe.request import WatchRequest

LOOK = """
import sys
print(__name__, __file__, sys.argv, sys.path[0], __spec__, sys.modules["__main__"].__file__)
try:
    1 / 0
except ZeroDivisionError as error:
    print(error.__traceback__.tb_lineno)
import beside
print(beside.__file__)
sys.stdout.flush()
import atexit
atexit.register(lambda: print("at exit", VALUE))
VALUE = 3
print(sys.stdin.read())
"""


def test_main_module_arguments_path_streams_and_exit_handlers_are_as_without_us(
    tmp_path: Path,
) -> None:
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "beside.py").write_text("")
    request = WatchRequest(str(tmp_path / "run"), {}, process=0)
    outputs = [
        subprocess.run(
            [sys.executable, *command, "look.py", "-x", "--y=1"],
            cwd=tmp_path,
            env=os.environ | more,
            input="typed",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command, more in (
            ([], {}),
            (["-m", "lossleuth.observe.child.run"], request.environment()),
        )
    ]
    assert outputs[0] == outputs[1]
    assert "typed" in outputs[0]
    assert "at exit 3" in outputs[0]
