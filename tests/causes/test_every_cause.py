"""What every cause keeps, whatever it is about: adding one is adding a file that passes here."""

from __future__ import annotations

import ast
import copy
import inspect
import math
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from any_finding import every_kind

import lossleuth.causes
from lossleuth.catalogue import HEADINGS, causes, page
from lossleuth.findings.finding import kinds
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.interventions.registry import make
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status
from lossleuth.types.observed import Ending, Origins, Readings, Step

FOLDER = Path(lossleuth.causes.__path__[0])
# What a judge may know: no torch, no files.
ALLOWED = ("lossleuth.types.", "lossleuth.findings.", "lossleuth.causes")
# Files of functions that several causes share.
SHARED = (
    "lossleuth.causes.reasoning",
    "lossleuth.causes.leaking",
    "lossleuth.causes.lessons",
    "lossleuth.causes.reported_numbers",
)
KINDS = {kind.__name__ for kind in kinds().values()}
EVERY = pytest.mark.parametrize("cause", causes(), ids=lambda c: c.id)


def source(cause: Cause) -> Path:
    return FOLDER / cause.stage.value / f"{cause.id}.py"


def changes_of(cause: Cause) -> Iterator[Change]:
    """Every change that the file of a cause makes; options only known later are made up."""
    module = import_module(f"lossleuth.causes.{cause.stage.value}.{cause.id}")
    for value in vars(module).values():
        found = value if isinstance(value, tuple) and not isinstance(value, Change) else (value,)
        yield from (change for change in found if isinstance(change, Change))
    for node in ast.walk(ast.parse(source(cause).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Change.of":
            (name,) = (ast.literal_eval(argument) for argument in node.args)
            yield Change.of(name, **{str(k.arg): _literal(k.value) for k in node.keywords})


def named_kinds(path: Path, *, outside_of_cause: bool = False) -> set[str]:
    """Kinds of findings that a file names; also those of functions that it imports from others."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [n for n in tree.body if not isinstance(n, ast.ImportFrom)]
    if outside_of_cause:
        nodes = [n for n in nodes if not ast.unparse(n).startswith("CAUSE")]
    names = {x.id for node in nodes for x in ast.walk(node) if isinstance(x, ast.Name)}
    return names & KINDS


def names_shared(cause: Cause) -> set[str]:
    """Kinds that functions read which several causes share, as far as this one calls them."""
    found: set[str] = set()
    waiting = [inspect.getmodule(cause.judge)]
    while waiting:
        module = waiting.pop()
        assert module is not None
        for name, value in vars(module).items():
            home = inspect.getmodule(value) if inspect.isfunction(value) else None
            if home is not None and home is not module and home.__name__ in SHARED:
                found |= _kinds_of(home, name)
    return found


def _kinds_of(module: Any, function: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """Kinds that a function reads, itself or through others of its module."""
    value = vars(module).get(function)
    if not inspect.isfunction(value) or function in seen:
        return set()
    home = inspect.getmodule(value)
    assert home is not None
    names = {
        node.id
        for node in ast.walk(ast.parse(inspect.getsource(value)))
        if isinstance(node, ast.Name)
    }
    inner = [_kinds_of(home, name, seen | {function}) for name in names]
    return (names & KINDS).union(*inner)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        # What is put together of words is one, all else a number.
        return "word" if ".join(" in ast.unparse(node) else 1.0


def test_every_file_is_a_cause_and_every_cause_a_file() -> None:
    files = {p for p in FOLDER.glob("*/*.py") if p.name != "__init__.py"}
    assert files == {source(cause) for cause in causes()}


@EVERY
def test_its_name_is_that_of_its_file_and_its_stage_that_of_its_folder(cause: Cause) -> None:
    module = inspect.getmodule(cause.judge)
    assert module is not None
    assert module.__name__ == f"lossleuth.causes.{cause.stage.value}.{cause.id}"
    assert cause.summary


@EVERY
def test_its_page_has_all_headings_in_order_each_with_words(cause: Cause) -> None:
    lines = page(cause).splitlines()
    assert [line for line in lines if line in HEADINGS] == list(HEADINGS)
    assert lines[0].endswith(".")
    for heading in HEADINGS:
        assert lines[lines.index(heading) + 1].startswith("    ")


@EVERY
def test_nothing_seen_is_no_reason_to_blame_and_not_green(cause: Cause) -> None:
    judgement = cause.judged(Evidence())
    assert judgement.status is Status.UNTESTED
    assert judgement.because and not judgement.trials_wanted


@EVERY
@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(recorded=[RecordedStep(0), RecordedStep(1)]),
        Evidence(steps=[Step(i) for i in range(40)]),
        Evidence(ending=Ending(unfinished=None), origins=Origins(weights=None)),
    ],
    ids=["no findings", "empty steps", "no ending"],
)
def test_findings_that_are_not_there_are_no_reason_to_blame(
    cause: Cause, evidence: Evidence
) -> None:
    assert cause.judged(evidence).status in (Status.UNTESTED, Status.REFUTED)


@EVERY
def test_numbers_that_are_none_are_no_reason_to_blame_and_no_proof_of_health(cause: Cause) -> None:
    broken = [RecordedStep(i, every_kind(math.nan)) for i in range(1, 4)]
    judgement = cause.judged(Evidence(recorded=broken))
    assert judgement.status in (Status.UNTESTED, Status.REFUTED)
    assert "nan" not in judgement.because


@EVERY
def test_its_judge_is_pure(cause: Cause) -> None:
    losses = [5.0, 4.0, 3.0, 3.0, 3.0, *[5.0] * 15]
    evidence = Evidence(
        steps=[Step(i, loss=x, lr=0.1, supervised=8) for i, x in enumerate(losses)],
        recorded=[RecordedStep(i, every_kind(0.5)) for i in range(3)],
        readings=Readings(swallowed_share=[[0.9]], update_rms=[[0.1]]),
        sizes=[10],
    )
    before = copy.deepcopy(evidence)
    assert cause.judged(evidence) == cause.judged(evidence)
    assert evidence == before


@EVERY
def test_it_is_handed_nothing_but_what_it_declares(cause: Cause) -> None:
    """A judge that reads a kind that it does not declare is blind there, and this shows it."""
    declared = {kind.__name__ for kind in cause.reads}
    assert named_kinds(source(cause)) <= declared | names_shared(cause)


@EVERY
def test_all_that_it_declares_is_read(cause: Cause) -> None:
    used = named_kinds(source(cause), outside_of_cause=True) | names_shared(cause)
    assert {kind.__name__ for kind in cause.reads} <= used


@EVERY
def test_its_numbers_are_limits_with_words(cause: Cause) -> None:
    module = import_module(f"lossleuth.causes.{cause.stage.value}.{cause.id}")
    own = {name: value for name, value in vars(module).items() if name.isupper()}
    bare = [name for name, value in own.items() if type(value) in (int, float)]
    assert bare == []
    mine = [value for value in own.values() if isinstance(value, Limit)]
    assert set(map(id, mine)) <= set(map(id, cause.limits))
    assert all(limit.bounds and limit.source for limit in cause.limits)


@EVERY
def test_it_overlaps_with_causes_that_exist_and_not_with_itself(cause: Cause) -> None:
    assert set(cause.overlaps) <= {other.id for other in causes()} - {cause.id}


@EVERY
def test_what_it_wants_tried_can_be_made(cause: Cause) -> None:
    for change in changes_of(cause):
        assert make(change) is not None


def test_changes_are_found_in_files_and_a_misspelt_option_would_be_seen() -> None:
    wanted = {change.name for cause in causes() for change in changes_of(cause)}
    assert {"scale_lr", "scale_gradient", "follow_true_gradient", "hold_lr"} <= wanted
    with pytest.raises(TypeError, match="faktor"):
        make(Change.of("scale_lr", faktor=0.1))


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda p: p.stem)
def test_causes_import_types_each_other_and_the_standard_library_only(path: Path) -> None:
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    foreign = [n for n in names if n.split(".")[0] not in sys.stdlib_module_names]
    assert [n for n in foreign if not n.startswith(ALLOWED)] == []
