"""The shapes that are promised are those of what is written, and the reference has every field."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from lossleuth.agents import answers
from lossleuth.judge import verdict as written
from lossleuth.types.change import Change, Effect
from lossleuth.types.judgement import Judgement, Status, Where, Wrongness
from lossleuth.types.phases import Phase

DOCS = Path(__file__).parents[2] / "docs"


def whole() -> dict[str, Any]:
    """A verdict with everything in it, as it is written."""
    harm = Effect(Change.of("scale_lr", factor=0.1), math.inf, 0.1, 3, 20, math.nan, 2.0, 4.0)
    full = Judgement(
        Status.PROVEN,
        "1 is not 0.",
        Where("train.py", 3, "head"),
        Wrongness("rate", 1.0, 0.0, 1e-7),
        harm,
        "Do it.",
        cure=Change.of("hold_lr"),
        phase=Phase(2, 2, 10, 19),
    )
    bare = Judgement(Status.SUSPECTED, "2 is not 0.")
    other = {status.value: Judgement(status, "x") for status in Status}
    judgements = {"full": full, "bare": bare} | other
    found = written.Verdict("proven", judgements, ["full", "bare", "benign"], 20, 1.5, ("falls",))
    return found.as_json()


def fields_of(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_a_verdict_has_the_promised_shape_and_no_field_more() -> None:
    known = whole()
    read = answers.Verdict.model_validate(known)
    assert read.model_dump(by_alias=True, exclude_unset=True) == known
    full = known["causes"][0]
    pairs = [
        (answers.Verdict, known),
        (answers.FoundCause, full),
        (answers.Where, full["where"]),
        (answers.Phase, full["phase"]),
        (answers.Wrongness, full["wrongness"]),
        (answers.Harm, full["harm"]),
        (answers.Change, full["harm"]["intervention"]),
        (answers.Detail, known["details"]["full"]),
    ]
    assert [(m.__name__, fields_of(m) ^ set(d)) for m, d in pairs if fields_of(m) != set(d)] == []


@pytest.mark.parametrize("field", ["status", "causes", "details", "schema"])
def test_a_verdict_without_a_field_is_seen(field: str) -> None:
    known = whole()
    del known[field]
    with pytest.raises(ValidationError, match=field):
        answers.Verdict.model_validate(known)


def test_numbers_that_json_has_not_stay_words() -> None:
    harm = answers.Verdict.model_validate(whole()).causes[0].harm
    assert harm is not None
    assert (harm.nats, harm.without, harm.error) == ("Infinity", "NaN", 0.1)


@dataclass
class Small:
    """A type of which something is answered."""

    size: float
    """How large it is."""
    status: Status = Status.PROVEN
    """What is known of it."""
    hidden: int = 0


def test_a_shape_follows_the_fields_of_a_type_and_their_words() -> None:
    shape = answers.shape_of(Small, "Little", without=frozenset({"hidden"}), whole=False)
    described = shape.model_json_schema()
    assert (described["title"], described["required"]) == ("Little", ["size"])
    assert set(described["properties"]) == {"size", "status"}
    assert described["properties"]["size"]["description"] == "How large it is."
    assert shape.model_validate({"size": "NaN"}).model_dump(exclude_unset=True) == {"size": "NaN"}
    for wrong in ({}, {"size": "large"}, {"size": 1.0, "status": "unheard of"}):
        with pytest.raises(ValidationError):
            shape.model_validate(wrong)


def test_a_cause_that_is_there_is_not_refuted() -> None:
    known = whole()
    known["causes"][0]["status"] = "refuted"
    with pytest.raises(ValidationError, match="proven"):
        answers.Verdict.model_validate(known)


SHAPES = [
    shape
    for shape in vars(answers).values()
    if isinstance(shape, type) and issubclass(shape, answers.Shape) and shape is not answers.Shape
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.__name__)
def test_every_field_says_what_it_is(shape: type[BaseModel]) -> None:
    described = shape.model_json_schema()["properties"]
    assert [name for name, field in described.items() if not field.get("description")] == []


def test_the_reference_describes_every_field_of_a_verdict() -> None:
    pages = ("verdict.md", "mcp.md")
    text = "".join((DOCS / "reference" / page).read_text(encoding="utf-8") for page in pages)
    shapes = (
        *(answers.Verdict, answers.FoundCause, answers.Where, answers.Wrongness),
        *(answers.Phase, answers.Harm, answers.Change, answers.Detail, answers.Examined),
    )
    named = {field for shape in shapes for field in fields_of(shape)}
    assert {field for field in named if f"`{field}`" not in text} == set()


def test_the_example_of_the_guide_names_the_line_it_shows() -> None:
    text = (DOCS / "for-assistants.md").read_text(encoding="utf-8")
    script = re.findall(r"```python\n(.*?)```", text, re.S)[0].splitlines()
    lines = {int(number) for number in re.findall(r'"line": (\d+)', text)}
    assert ["lr=1.0" in script[line - 1] for line in lines] == [True]
