"""A blind observer is loud: what it could not see is untested, and it never says healthy."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lossleuth.causes
from lossleuth.catalogue import causes
from lossleuth.judge.blind_spots import drop_blind, is_needed
from lossleuth.judge.judge import judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, refuted
from lossleuth.types.observed import Step

PROBLEM = "no such function"
LEARNING = [Step(i, loss=4.0 - 0.05 * i, lr=0.1, unigram=3.0) for i in range(60)]


def test_a_cause_that_relies_on_what_is_missing_is_untested_and_the_others_stay() -> None:
    known = {cause.id: refuted("0 of 3 steps") for cause in causes()}
    found = drop_blind(causes(), known, {"clipping": PROBLEM})
    blind = {i for i, judgement in found.items() if judgement.status is Status.UNTESTED}
    assert blind == {"clip_too_tight"}
    assert found["clip_too_tight"].because == f"clipping could not be watched ({PROBLEM})"


@pytest.mark.parametrize("patch", ["backward", "optimizers", "everything", "of a later release"])
def test_without_what_makes_a_step_nothing_is_tested(patch: str) -> None:
    assert all(is_needed(patch, cause) for cause in causes())


def test_what_is_only_shown_is_needed_by_nobody() -> None:
    assert not any(is_needed("reads", cause) for cause in causes())


def test_the_same_run_is_healthy_with_open_eyes_and_cannot_be_told_without() -> None:
    assert judge((), [Evidence(steps=LEARNING)]).status == "healthy"
    verdict = judge((), [Evidence(steps=LEARNING, missing_patches={"reads": PROBLEM})])
    assert verdict.status == "cannot_tell"
    assert "could not watch reads" in verdict.notes[0] and PROBLEM in verdict.notes[0]


# Numbers of a step that nothing but this patch sees.
SEEN_BY = {
    "clipping": {"clip_factor", "clip_limit"},
    "loss scaling": {"loss_scale", "skipped_by"},
    "lookups": {"supervised", "unsupervised", "unigram"},
}


def reading(numbers: set[str]) -> set[str]:
    """The causes whose files name one of these numbers of a step."""
    found = set()
    for path in Path(lossleuth.causes.__path__[0]).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        if names & numbers:
            found.add(path.stem)
    return found & {cause.id for cause in causes()}


@pytest.mark.parametrize("patch", SEEN_BY)
def test_every_cause_that_reads_what_a_patch_sees_relies_on_it(patch: str) -> None:
    declared = {cause.id for cause in causes() if patch in cause.relies_on}
    assert reading(SEEN_BY[patch])
    assert reading(SEEN_BY[patch]) <= declared
