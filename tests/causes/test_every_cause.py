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

import lossleuth.causes
from lossleuth.catalogue import HEADINGS, causes, page
from lossleuth.interventions.registry import make
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status

FOLDER = Path(lossleuth.causes.__path__[0])
STILL = {"logits_std": 0.5, "gradient": None}
# What probes give where everything has become NaN.
NAN = math.nan
BROKEN: dict[str, Any] = {
    "stale_share": NAN,
    "true_loss": {"loss": NAN, "vocabulary": 96, "logits_std": NAN, "gradient": None},
    "gradient_truth": [{"error": NAN, "floor": NAN, "parameters": [], "untested": None}],
    "functions": [{"error": NAN, "floor": NAN, "name": "f", "file": "a.py", "line": 1}],
    "cuts": [{"lost_share": NAN, "starved": [], "changed": [], "places": [], "untested": None}],
    "hand_gradients": [{"cosine": NAN, "error": NAN, "floor": NAN, "place": None}],
    "reported": [{"cosine": NAN, "place": "a.py:1"}],
    "logit_gradients": [{"cosine": NAN, "scale": NAN, "count": 8}] * 2,
    "descent": {"cosine": NAN, "rising_share": 0.0},
    "leaks": {"future": NAN, "batch": NAN, "own": NAN, "order": NAN, "floor": 1e-12},
    "updates": [
        {"error": NAN, "floor": NAN, "rule": "SGD", "optimizer": "SGD", "update_norm": NAN}
    ],
    "coverage": {
        "missing": [{"name": "w", "elements": 1, "file": "a.py", "line": 1, "module": None}],
        "missing_share": NAN,
        "frozen": [],
        "held": 1,
        "unused": 0,
        "unused_match_missing": False,
    },
}
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
    assert cause.summary and cause.needs


@EVERY
def test_its_page_has_all_headings_in_order_each_with_words(cause: Cause) -> None:
    lines = page(cause).splitlines()
    assert [line for line in lines if line in HEADINGS] == list(HEADINGS)
    assert lines[0].endswith(".")
    for heading in HEADINGS:
        assert lines[lines.index(heading) + 1].startswith("    ")


@EVERY
def test_nothing_seen_is_no_reason_to_blame_and_not_green(cause: Cause) -> None:
    judgement = cause.judge(Evidence())
    assert judgement.status is Status.UNTESTED
    assert judgement.because and not judgement.trials_wanted


@EVERY
@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(windows=[{"step": 0}, {"step": 1}]),
        Evidence(steps=[{"step": i, "loss": None, "lr": None} for i in range(40)]),
        Evidence(windows=[{"step": 1, "leaks": None, "cuts": [], "coverage": {}, "updates": []}]),
        Evidence(ending={"unfinished": None}, origins={"weights": None, "settings": None}),
    ],
    ids=["empty windows", "empty steps", "empty findings", "no ending"],
)
def test_findings_that_are_not_there_are_no_reason_to_blame(
    cause: Cause, evidence: Evidence
) -> None:
    assert cause.judge(evidence).status in (Status.UNTESTED, Status.REFUTED)


@EVERY
def test_numbers_that_are_none_are_no_reason_to_blame_and_no_proof_of_health(cause: Cause) -> None:
    judgement = cause.judge(Evidence(windows=[{"step": i, **BROKEN} for i in range(1, 4)]))
    assert judgement.status in (Status.UNTESTED, Status.REFUTED)
    assert "nan" not in judgement.because


@EVERY
def test_its_judge_is_pure(cause: Cause) -> None:
    losses = [5.0, 4.0, 3.0, 3.0, 3.0, *[5.0] * 15]
    evidence = Evidence(
        steps=[{"step": i, "loss": x, "lr": 0.1, "supervised": 8} for i, x in enumerate(losses)],
        windows=[
            {"step": i, "stale_share": 1.0, "true_loss": {"loss": 9.0, "vocabulary": 96} | STILL}
            for i in range(3)
        ],
        columns={"swallowed_share": [[0.9]], "update_rms": [[0.1]]},
        sizes=[10],
    )
    before = copy.deepcopy(evidence)
    assert cause.judge(evidence) == cause.judge(evidence)
    assert evidence == before


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
    assert [n for n in foreign if not n.startswith(("lossleuth.types.", "lossleuth.causes"))] == []
