"""Only what lies under the server's directory may be touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.agents.fence import Fence
from lossleuth.types.errors import BadInput


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a script and a run, and a neighbour with the same."""
    for name in ("mine", "mine-too"):
        (tmp_path / name / "runs" / "a").mkdir(parents=True)
        (tmp_path / name / "train.py").write_text("x = 1\n")
        (tmp_path / name / "runs" / "a" / "record.log").write_bytes(b"")
    return tmp_path / "mine"


def test_what_is_inside_is_given_as_it_is(root: Path) -> None:
    fence = Fence(root)
    assert fence.file("train.py") == root / "train.py"
    assert fence.file(str(root / "train.py")) == root / "train.py"
    assert fence.file("runs/../train.py") == root / "train.py"
    assert fence.run("runs/a") == root / "runs" / "a"


@pytest.mark.parametrize(
    "given",
    [
        "../mine-too/train.py",
        "runs/../../mine-too/train.py",
        "/etc/passwd",
        "..",
        "/",
        "link.py",
        "folder/train.py",
        "~/train.py/../../../mine-too/train.py",
    ],
)
def test_what_leads_out_is_refused(root: Path, given: str) -> None:
    (root / "link.py").symlink_to(root.parent / "mine-too" / "train.py")
    (root / "folder").symlink_to(root.parent / "mine-too", target_is_directory=True)
    with pytest.raises(BadInput, match="outside of it: start `lossleuth mcp` in") as refusal:
        Fence(root).file(given)
    # Nothing is told of what is there.
    assert str(refusal.value).count("\n") == 0
    with pytest.raises(BadInput, match="outside of it"):
        Fence(root).run(given)


def test_what_is_not_there_outside_is_refused_with_the_same_words(root: Path) -> None:
    with pytest.raises(BadInput, match="outside of it"):
        Fence(root).file("../mine-too/gone.py")


def test_a_link_that_stays_inside_is_followed(root: Path) -> None:
    (root / "link.py").symlink_to("train.py")
    assert Fence(root).file("link.py") == root / "train.py"


def test_a_root_that_is_a_link_is_the_place_it_leads_to(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root, target_is_directory=True)
    assert Fence(link).file(str(root / "train.py")) == root / "train.py"


def test_a_run_with_a_link_out_is_refused(root: Path) -> None:
    log = root / "runs" / "a" / "record.log"
    log.unlink()
    log.symlink_to(root.parent / "mine-too" / "runs" / "a" / "record.log")
    with pytest.raises(BadInput, match="outside of it"):
        Fence(root).run("runs/a")


@pytest.mark.parametrize(
    ("given", "said"),
    [("gone.py", "no file at"), ("runs", "a directory at"), ("a\0b", "no path in"), ("", "direc")],
)
def test_what_is_no_file_is_refused(root: Path, given: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Fence(root).file(given)


@pytest.mark.parametrize(("given", "said"), [("gone", "nothing at"), ("train.py", "a file at")])
def test_what_is_no_directory_is_refused(root: Path, given: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Fence(root).run(given)


def test_links_in_a_circle_are_refused(root: Path) -> None:
    (root / "a.py").symlink_to("b.py")
    (root / "b.py").symlink_to("a.py")
    with pytest.raises(BadInput, match=r"expected a Python file, found no (path|file)"):
        Fence(root).file("a.py")


def test_new_runs_are_new_and_inside(root: Path) -> None:
    fence = Fence(root)
    made = [fence.new_run() for _ in range(3)]
    assert len(set(made)) == 3
    assert all(path.parent == root / "runs" and not any(path.iterdir()) for path in made)


def test_no_run_is_made_outside(root: Path) -> None:
    elsewhere = root.parent / "mine-too" / "runs"
    (root / "runs").rename(root / "old")
    (root / "runs").symlink_to(elsewhere, target_is_directory=True)
    before = list(elsewhere.iterdir())
    with pytest.raises(BadInput, match="a place for the run under"):
        Fence(root).new_run()
    assert list(elsewhere.iterdir()) == before


def test_a_place_that_cannot_be_written_to_is_refused(root: Path) -> None:
    (root / "runs").rename(root / "old")
    (root / "runs").write_text("")
    with pytest.raises(BadInput, match="expected a writable directory"):
        Fence(root).new_run()
