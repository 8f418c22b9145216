"""What a run writes stays away from the user's files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from lossleuth.observe.child.overlay import protect
own, scratch, kept = sys.argv[1:]
print(protect([own], scratch, kept))
print(Path(own, "there.txt").read_text())
Path(own, "there.txt").write_text("changed")
Path(own, "new.txt").write_text("new")
Path(kept, "record.txt").write_text("real")
print(Path(own, "there.txt").read_text(), Path(own, "new.txt").read_text())
"""


def test_a_process_reads_what_is_there_and_writes_elsewhere(tmp_path: Path) -> None:
    own, scratch = tmp_path / "own", tmp_path / "scratch"
    kept = own / "runs"
    kept.mkdir(parents=True)
    scratch.mkdir()
    (own / "there.txt").write_text("as it was")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(own), str(scratch), str(kept)],
        capture_output=True,
        text=True,
        check=True,
    )
    reason, read, written = done.stdout.splitlines()
    # To the process itself, all is as without us.
    assert (read, written) == ("as it was", "changed new")
    assert (kept / "record.txt").read_text() == "real"
    if reason == "None":
        assert (own / "there.txt").read_text() == "as it was"
        assert not (own / "new.txt").exists()
    else:
        # The kernel does not allow it: then that is said, and the run goes on.
        assert len(reason) > 5


def test_what_cannot_be_overlaid_is_said_and_left(tmp_path: Path) -> None:
    odd = tmp_path / "a,b"
    odd.mkdir()
    program = (
        "import sys\nfrom lossleuth.observe.child.overlay import protect\n"
        "print(protect([sys.argv[1]], sys.argv[2], sys.argv[2]))\n"
    )
    for folder in (odd, Path("/")):
        done = subprocess.run(
            [sys.executable, "-c", program, str(folder), str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == f"{folder} cannot be overlaid"


FORKING = """
import os, sys
from pathlib import Path
from lossleuth.observe.child.overlay import protect, protect_fork
own, scratch, kept = sys.argv[1:]
os.chdir(own)
print(protect([own], f"{scratch}/before", kept))
Path("there.txt").write_text("changed")
Path("gone.txt").unlink()
for name in "ab":
    runs = Path(kept, name)
    if not os.fork():
        # As the parent of a run does, in the real folder.
        reason = protect_fork([own], f"{scratch}/before", f"{scratch}/{name}", kept)
        print(reason, Path("there.txt").read_text(), Path("gone.txt").exists(), os.listdir())
        Path("there.txt").write_text(name)
        Path(f"{name}.txt").write_text(name)
        Path(kept, f"record-{name}.txt").write_text("real")
        print(Path("there.txt").read_text())
        sys.stdout.flush()
        os._exit(0)
    os.wait()
print(Path("there.txt").read_text(), sorted(os.listdir()))
"""


def test_each_fork_of_a_process_writes_for_itself(tmp_path: Path) -> None:
    own, scratch = tmp_path / "own", tmp_path / "scratch"
    kept = own / "runs"
    kept.mkdir(parents=True)
    scratch.mkdir()
    (own / "there.txt").write_text("as it was")
    (own / "gone.txt").write_text("here")
    done = subprocess.run(
        [sys.executable, "-uc", FORKING, str(own), str(scratch), str(kept)],
        capture_output=True,
        text=True,
        check=True,
    )
    reason, *said = done.stdout.splitlines()
    if reason != "None":
        # The kernel does not allow it: nothing is forked then.
        assert len(reason) > 5
        return
    for name, (seen, written) in zip("ab", (said[0:2], said[2:4]), strict=True):
        # What was written before the fork is seen, what the other fork wrote is not.
        assert seen.startswith("None changed False")
        assert "a.txt" not in seen
        assert written == name
        assert (kept / f"record-{name}.txt").read_text() == "real"
    assert said[4] == "changed ['runs', 'there.txt']"
    assert sorted(p.name for p in own.iterdir()) == ["gone.txt", "runs", "there.txt"]
    assert (own / "there.txt").read_text() == "as it was"
