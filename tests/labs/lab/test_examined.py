"""A verdict becomes a row without paths of this machine, and is right or wrong for a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lossleuth.judge.verdict import Verdict
from lossleuth.labs.lab.cells import Cell
from lossleuth.labs.lab.examined import PACKAGE, examined, is_good, is_located, row_of
from lossleuth.labs.lab.programs.planting import fault_of
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Judgement, Status, Where, refuted

ASCENT = Cell("plain", "ascent", ("ascent",))
LINE = fault_of("ascent").lines("plain")[0]
HARM = Effect(Change.of("scale_lr", factor=-1.0), 2.0, 0.1, 3, 80, 5.0, 3.0, 4.2)


def verdict(**judgements: Judgement) -> dict[str, Any]:
    """As it stands in `verdict.json`."""
    order = [i for i, j in judgements.items() if j.status.value in ("proven", "suspected")]
    order += [i for i, j in judgements.items() if j.status is Status.BENIGN]
    status = judgements[order[0]].status.value if order else "healthy"
    return Verdict(status, judgements, order, 200, 12.34).as_json()


def proven(line: int = LINE, harm: Effect | None = HARM) -> Judgement:
    where = Where(str(fault_of("ascent").file), line)
    return Judgement(Status.PROVEN, f"Seen in {PACKAGE}/lab.", where, harm=harm)


def test_a_row_holds_no_path_of_this_machine() -> None:
    row = row_of(ASCENT, verdict(ascent=proven()))
    assert str(PACKAGE) not in json.dumps(row)
    (found,) = row["causes"]
    assert found["where"] == f"labs/lab/programs/optimizer_faults.py:{LINE}"
    assert found["effect"]["nats"] == 2.0 and row["seconds"] == 12.3


@pytest.mark.parametrize(("off", "near"), [(0, True), (2, True), (-2, True), (3, False)])
def test_two_lines_off_is_near(off: int, near: bool) -> None:
    row = row_of(ASCENT, verdict(ascent=proven(LINE + off)))
    assert row["causes"][0]["near"] is near and is_located(row) is near


def test_a_place_in_another_file_or_none_is_not_near() -> None:
    elsewhere = Judgement(Status.PROVEN, "Seen.", Where("train.py", LINE))
    nowhere = Judgement(Status.PROVEN, "Seen.")
    assert row_of(ASCENT, verdict(ascent=elsewhere))["causes"][0]["near"] is False
    assert row_of(ASCENT, verdict(ascent=nowhere))["causes"][0]["near"] is False
    assert is_located(row_of(ASCENT, verdict(ascent=refuted("No.")))) is None


def test_infinite_effects_are_written_as_nothing() -> None:
    harm = HARM._replace(nats=float("inf"))
    row = row_of(ASCENT, verdict(ascent=proven(harm=harm)))
    assert row["causes"][0]["effect"]["nats"] is None
    assert json.dumps(row, allow_nan=False)


@pytest.mark.parametrize(
    ("judgements", "good"),
    [
        ({"ascent": proven()}, True),
        ({"ascent": proven(), "loss_disconnected": Judgement(Status.SUSPECTED, "Seen.")}, True),
        ({"ascent": proven(), "pad_in_loss": Judgement(Status.SUSPECTED, "Seen.")}, False),
        ({"ascent": proven(), "pad_in_loss": Judgement(Status.BENIGN, "Seen.")}, True),
        ({"ascent": Judgement(Status.BENIGN, "Seen.", harm=HARM)}, True),
        ({"ascent": Judgement(Status.BENIGN, "Seen.")}, False),
        (
            {
                "loss_disconnected": Judgement(Status.PROVEN, "Seen."),
                "ascent": Judgement(Status.BENIGN, "Seen.", harm=HARM),
            },
            False,
        ),
        ({"ascent": Judgement(Status.SUSPECTED, "Seen.")}, False),
        ({"ascent": refuted("No.")}, False),
        ({"ascent": proven(), "overflow": Judgement(Status.ERRORED, "Ours.")}, False),
    ],
)
def test_a_cell_is_good_for_a_reason(judgements: dict[str, Judgement], good: bool) -> None:
    assert is_good(row_of(ASCENT, verdict(**judgements))) is good


def test_healthy_is_good_where_nothing_was_planted() -> None:
    cell = Cell("plain", "healthy")
    assert row_of(cell, verdict(ascent=refuted("No.")))["good"] is True
    assert row_of(cell, verdict(ascent=Judgement(Status.SUSPECTED, "Seen.")))["good"] is False


def test_of_an_invention_nothing_can_be_told() -> None:
    cell = Cell("plain", "tokens_renamed", ("tokens_renamed",))
    assert row_of(cell, verdict(ascent=refuted("No.")))["good"] is False
    assert row_of(cell, verdict() | {"status": "cannot_tell"})["good"] is True
    assert row_of(cell, verdict(ascent=Judgement(Status.SUSPECTED, "Seen.")))["good"] is False
    assert row_of(cell, verdict(ascent=proven()))["good"] is False


def test_of_two_faults_both_have_to_be_found() -> None:
    cell = Cell("plain", "ascent+lr_zero", ("ascent", "lr_zero"))
    one: dict[str, Any] = {"ascent": proven(), "lr_zero": refuted("No.")}
    row = row_of(cell, verdict(**one))
    assert row["good"] is False and row["details"]["lr_zero"]["status"] == "refuted"
    one["lr_zero"] = Judgement(Status.BENIGN, "Seen.", harm=HARM)
    assert row_of(cell, verdict(**one))["good"] is True
    one["lr_zero"] = Judgement(Status.PROVEN, "Seen.")
    assert row_of(cell, verdict(**one))["good"] is True


def test_a_script_that_does_not_train_says_which_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cell, "script", PACKAGE / "types.py")
    with pytest.raises(BadInput, match="plain/healthy"):
        examined(Cell("plain", "healthy"), budget=5)


@pytest.mark.slow
def test_a_planted_fault_is_proven_from_end_to_end() -> None:
    row = examined(Cell("plain", "label_offset", ("label_offset",), 2.0))
    assert row["good"] and is_located(row)
