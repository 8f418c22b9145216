"""Runs the demo and the tests of observing and tapes with other versions of torch: `make compat`.

python tests/compat.py [VERSION ...]; without any: the oldest that is supported, and the newest.

It stands with the tests since it runs them, and outside of `make test` since each torch is a
download of gigabytes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".compat"
OLDEST, NEWEST = "2.4.1", "newest"
TESTS = ("tests/observe", "tests/tape", "tests/test_torch_internals.py", "tests/test_notebook.py")
# What those tests import besides what lossleuth itself needs.
TEST_PACKAGES = ("pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100")
# Wheels of a torch this old know no later numpy.
OLD_NUMPY = "numpy<2.3"
MISSING = "from lossleuth.torch_internals import ABSENT; print(', '.join(ABSENT) or 'none')"
WORDS_KEPT = 60


@dataclass(frozen=True)
class Row:
    """How one torch did."""

    torch: str
    missing: str
    demo: str
    tests: str


def main(versions: list[str]) -> int:
    """Try every version and print the table; 0 if all of them passed."""
    rows = [tried(version) for version in versions or [OLDEST, NEWEST]]
    print(table(rows))
    good = [row.demo == "passed" and "failed" not in row.tests for row in rows]
    return 0 if all(good) else 1


def tried(version: str) -> Row:
    """Build an environment with that torch, and run everything in it."""
    folder = FOLDER / version
    python = folder / "bin" / "python"
    wanted = ["torch"] if version == NEWEST else [f"torch=={version}", OLD_NUMPY]
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        installed = run([str(python), "-m", "pip", "install", *wanted, ".", *TEST_PACKAGES])
        if installed.returncode:
            return Row(version, "", "not installed", last_line(installed))
        (folder / "ready").touch()
    # The torch is kept from an earlier time; what is tried is the code as it is now.
    run([str(python), "-m", "pip", "install", "--no-deps", "--force-reinstall", "."])
    shown = run([str(python), "-c", "import torch; print(torch.__version__)"])
    missing = run([str(python), "-c", MISSING])
    demo = run([str(folder / "bin" / "lossleuth"), "demo"])
    tests = run([str(python), "-m", "pytest", "-rfE", "-p", "no:cacheprovider", *TESTS])
    return Row(last_line(shown), last_line(missing), outcome(demo), counts(tests.stdout))


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout, and keep what it prints."""
    print("$", *command, file=sys.stderr)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def outcome(finished: subprocess.CompletedProcess[str]) -> str:
    """Whether it passed, or the end of what it said."""
    return "passed" if finished.returncode == 0 else last_line(finished)


def counts(output: str) -> str:
    """How many tests passed and failed, by the last line of pytest, and which failed first.

    >>> counts("FAILED tests/a.py::test_b - AssertionError\\n1 failed, 3 passed in 1.2s")
    '1 failed, 3 passed (first: tests/a.py::test_b)'
    """
    found = re.findall(r"\d+ (?:failed|passed|skipped|errors?)", output)
    first = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return (", ".join(found) or "no test ran") + (f" (first: {first[1]})" if first else "")


def last_line(finished: subprocess.CompletedProcess[str]) -> str:
    """The end of what a command said."""
    lines = (finished.stdout.strip() or finished.stderr.strip()).splitlines()
    return lines[-1][:WORDS_KEPT] if lines else f"exit code {finished.returncode}"


def table(rows: list[Row]) -> str:
    """One line for each torch.

    >>> print(table([Row("2.4.1", "none", "passed", "3 passed")]))
    | torch | private symbols that it lacks | demo | tests |
    |---|---|---|---|
    | 2.4.1 | none | passed | 3 passed |
    """
    lines = ["| torch | private symbols that it lacks | demo | tests |", "|---|---|---|---|"]
    lines += [f"| {row.torch} | {row.missing} | {row.demo} | {row.tests} |" for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
