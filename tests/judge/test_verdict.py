"""The verdict and its file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from small_examinations import says

from lossleuth.judge.gain import Gain
from lossleuth.judge.reach import Reach
from lossleuth.judge.verdict import Verdict
from lossleuth.judge.yardstick import Comparison
from lossleuth.record.strict_json import number
from lossleuth.run_directory import VERDICT
from lossleuth.types.challenge import Bias
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Judgement, Status, Where, Wrongness

HARM = Effect(Change.of("scale_lr", factor=0.1), math.inf, 0.0, 3, 40, math.inf, 2.5, math.nan)
JUDGEMENTS = {
    "label_noise": says(Status.REFUTED, "0 of 10"),
    "label_offset": says(Status.BENIGN, "so it is meant"),
    "future_leak": says(Status.UNTESTED, "no tokens"),
    "lr_too_high": says(
        Status.PROVEN,
        "3 is not 1",
        where=Where("train.py", 7, "head"),
        wrongness=Wrongness("the rate", math.inf, 1.0, math.nan),
        harm=HARM,
        remedy="train.py:7: lower it",
    ),
    "overflow": says(Status.SUSPECTED),
    "ascent": says(Status.ERRORED, "KeyError: 'x'"),
}


GAIN = Gain(
    "at ten times the rate",
    Bias.EARLY,
    Effect(Change.of("scale_lr", factor=10.0), math.inf, 0.0, 3, 60, math.inf, 2.0, 3.0),
    counts=False,
)


BEHIND = Comparison(2.5, 2.0, 0.3, 1.5, 2.1, steps=60, parameters=90, trained=100, rate=1e-2)


def whole() -> Verdict:
    order = ["lr_too_high", "overflow", "label_offset"]
    reach = Reach(to_end=False, planned=2000)
    return Verdict(
        "proven",
        JUDGEMENTS,
        order,
        60,
        12.34567,
        ("the loss rises",),
        reach,
        headroom=(GAIN,),
        yardstick=BEHIND,
    )


def test_the_public_form_is_that_of_the_design() -> None:
    found = whole().as_json()
    assert set(found) == {
        *("schema", "status", "causes", "refuted", "untested", "errored", "details"),
        *("notes", "steps", "seconds", "seen_to_end", "planned_steps", "phases", "headroom"),
        "yardstick",
    }
    assert found["yardstick"] == BEHIND.as_json()
    assert (found["schema"], found["status"]) == (1, "proven")
    assert (found["steps"], found["seconds"]) == (60, 12.346)
    assert (found["seen_to_end"], found["planned_steps"]) == (False, 2000)
    assert [c["id"] for c in found["causes"]] == ["lr_too_high", "overflow", "label_offset"]
    assert [c["status"] for c in found["causes"]] == ["proven", "suspected", "benign"]
    assert found["refuted"] == ["label_noise"]
    assert found["untested"] == ["future_leak"]
    assert found["errored"] == ["ascent"]
    assert set(found["details"]) == set(JUDGEMENTS)
    assert found["details"]["future_leak"] == {"status": "untested", "because": "no tokens"}


def test_a_cause_has_all_its_fields_whatever_is_known() -> None:
    first, second, _ = whole().as_json()["causes"]
    fields = {"id", "status", "because", "where", "wrongness", "harm", "remedy", "phase"}
    assert set(first) == set(second) == fields
    assert first["where"] == {"file": "train.py", "line": 7, "module": "head"}
    assert first["harm"]["change"] == "scale_lr(factor=0.1)"
    assert first["harm"]["intervention"] == {"name": "scale_lr", "options": {"factor": 0.1}}
    assert (second["where"], second["wrongness"], second["harm"]) == (None, {}, None)


def test_the_file_is_strict_json_with_infinity_as_a_word(tmp_path: Path) -> None:
    def refuse(token: str) -> float:
        raise AssertionError(token)

    path = whole().write(tmp_path)
    assert path == tmp_path / VERDICT
    found = json.loads(path.read_text(), parse_constant=refuse)
    assert found == whole().as_json()
    harm = found["causes"][0]["harm"]
    assert number(harm["nats"]) == math.inf
    assert math.isnan(number(harm["start"]))
    assert found["causes"][0]["wrongness"]["value"] == "Infinity"


@pytest.mark.parametrize(
    ("status", "code"), [("proven", 1), ("suspected", 1), ("healthy", 0), ("cannot_tell", 0)]
)
def test_the_exit_code_says_whether_something_was_found(status: str, code: int) -> None:
    assert Verdict(status, {}, [], 0, 0.0).exit_code == code


def test_what_was_written_can_be_read_back(tmp_path: Path) -> None:
    wrong = Wrongness("the rate", 3.0, 1.0, 0.0)
    harm = HARM._replace(start=4.0)
    cure = Change.of("use_rule", rule="AdamW")
    proven = Judgement(
        Status.PROVEN, "3", Where("t.py", 7), wrong, harm, remedy="lower it", cure=cure
    )
    known = {**JUDGEMENTS, "lr_too_high": proven}
    reach = Reach(to_end=True)
    before = Verdict("proven", known, ["lr_too_high"], 60, 12.346, ("it rises",), reach)
    before.write(tmp_path)
    assert Verdict.read(tmp_path) == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"details": {"x": {}}}', "\xff", "null"])
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match="none in"):
        Verdict.read(tmp_path)
    (tmp_path / VERDICT).write_text(text)
    with pytest.raises(BadInput, match="another kind of file"):
        Verdict.read(tmp_path)


def test_causes_with_one_reason_stand_together() -> None:
    judgements = {
        "a": says(Status.REFUTED, "no teacher in 3 steps"),
        "b": says(Status.REFUTED, "0 of 10"),
        "c": says(Status.REFUTED, "no teacher in 3 steps"),
        "d": says(Status.UNTESTED, "0 of 10"),
    }
    found = Verdict("healthy", judgements, [], 3, 1.0)
    together = [(["a", "c"], "no teacher in 3 steps"), (["b"], "0 of 10")]
    assert found.reasons(Status.REFUTED) == together
