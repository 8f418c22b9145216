"""A blind watch is loud."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lossleuth.causes
from lossleuth.catalogue import causes
from lossleuth.judge.blind_spots import NEEDED_BY, left_untested

# Numbers of a step that nothing but this patch sees.
SEEN_BY = {
    "clipping": {"clip_factor", "clip_limit"},
    "loss scaling": {"loss_scale", "skipped_by"},
    "lookups": {"supervised", "unsupervised", "unigram", "classes"},
}


def reading(numbers: set[str]) -> set[str]:
    """The causes whose files name one of these."""
    found = set()
    for path in Path(lossleuth.causes.__path__[0]).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        names |= {str(n.value) for n in ast.walk(tree) if isinstance(n, ast.Constant)}
        if names & numbers:
            found.add(path.stem)
    return found & {cause.id for cause in causes()}


@pytest.mark.parametrize("patch", SEEN_BY)
def test_every_cause_that_reads_what_a_patch_sees_is_untested_without_it(patch: str) -> None:
    needed_by = NEEDED_BY[patch]
    assert needed_by is not None
    assert reading(SEEN_BY[patch])
    assert reading(SEEN_BY[patch]) <= needed_by


def test_only_causes_that_exist_are_named() -> None:
    named = {cause for needed_by in NEEDED_BY.values() for cause in needed_by or ()}
    assert named <= {cause.id for cause in causes()}


def test_without_backward_or_with_a_patch_nobody_knows_nothing_is_tested() -> None:
    assert set(left_untested({"backward": "gone"}, ["label_offset", "overflow"])) == {
        "label_offset",
        "overflow",
    }
    assert "overflow" in left_untested({"brand new": "gone"}, ["overflow"])
    assert left_untested({"reads": "gone"}, ["overflow"]) == {}
    assert left_untested({}, ["overflow"]) == {}
