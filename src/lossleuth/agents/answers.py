"""The shapes of what is answered; clients see them as JSON schemas.

Those of a verdict are made of the types that it is written from, the words under their fields
included. Fields that a later version adds are passed on as they are.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import reduce
from operator import or_
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from lossleuth.judge.judge import RANK
from lossleuth.judge.verdict import INTERNAL, ONLY_IN_DETAILS, VerdictFile
from lossleuth.types import change, judgement

# Strict JSON has no NaN and no infinity: they are written as words.
Number = float | Literal["NaN", "Infinity", "-Infinity"]
# What is written beside the fields of a type: sentences once more, for programs.
FURTHER = {
    "intervention": "The change by the name of an intervention and its options.",
    "cure_intervention": "The cure by the name of an intervention and its options.",
}
Outcome = Literal["pass", "fail", "cannot tell"]


class Shape(BaseModel):
    """What all have in common: the words under a field are its description."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class Identified(Shape):
    """What has an id."""

    id: str
    """The id of a cause; `explain` has its page."""


def shape_of(
    kind: type,
    name: str,
    *,
    without: frozenset[str] = frozenset(),
    instead: Mapping[str, Any] | None = None,
    whole: bool = True,
    optional: frozenset[str] = frozenset(),
    base: type[Shape] = Shape,
) -> type[Shape]:
    """The shape of a type's JSON: a field for each of its own, with the same words.

    `instead` gives other types for some fields, and further fields. Where it is not written whole,
    fields that have a default, and those that are `optional`, may be missing.
    """
    hints = {k: hint for k, hint in typing.get_type_hints(kind).items() if k not in without}
    notes, made = FURTHER | field_notes(kind), dict[str, Any]()
    for field, hint in (hints | dict(instead or {})).items():
        may_miss = not whole and field in _defaults(kind) | optional
        # A model has a method of the name `schema`.
        alias = "schema" if field == "schema" else None
        note = Field(None if may_miss else ..., description=notes.get(field), alias=alias)
        kept = json_type(hint)
        made[f"{field}_version" if alias else field] = (kept | None if may_miss else kept, note)
    return create_model(name, __base__=base, __doc__=kind.__doc__, **made)


def json_type(hint: Any) -> Any:
    """What strict JSON makes of a type.

    >>> json_type(float | None) == Number | None
    True
    """
    if hint is float:
        return Number
    if isinstance(hint, type) and issubclass(hint, Enum):
        return literal(hint)
    if isinstance(hint, types.UnionType):
        return reduce(or_, [json_type(part) for part in typing.get_args(hint)])
    return SHAPES.get(hint, hint)


def literal(members: typing.Iterable[Enum]) -> Any:
    """Exactly these words."""
    return Literal.__getitem__(tuple(member.value for member in members))


def field_notes(kind: type) -> dict[str, str]:
    """The words under the fields of a class, by the field.

    >>> field_notes(judgement.Where)["line"]
    'Line in it, from 1.'
    """
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, note in zip(tree.body, tree.body[1:], strict=False):
        noted = isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and noted:
            found[ast.unparse(field.target)] = ast.literal_eval(ast.unparse(note))
    return found


def _defaults(kind: type) -> set[str]:
    """Fields that have a default."""
    known = fields(kind) if is_dataclass(kind) else ()
    return {f.name for f in known if f.default is not MISSING or f.default_factory is not MISSING}


# What a type is in an answer, where it is not simply what it is.
SHAPES: dict[Any, Any] = {}
Change = SHAPES[change.Change] = shape_of(
    change.Change, "Change", instead={"options": dict[str, Number | int | str | bool]}
)
Where = SHAPES[judgement.Where] = shape_of(judgement.Where, "Where")
Wrongness = SHAPES[judgement.Wrongness] = shape_of(judgement.Wrongness, "Wrongness")
Harm = SHAPES[change.Effect] = shape_of(
    change.Effect, "Harm", instead={"change": str, "intervention": Change}
)
FoundCause = shape_of(
    judgement.Judgement,
    "FoundCause",
    without=INTERNAL | ONLY_IN_DETAILS,
    # Without a broken invariant, there is an empty object.
    instead={"status": literal(RANK), "wrongness": Wrongness | dict[str, Any]},
    base=Identified,
)
Detail = shape_of(
    judgement.Judgement,
    "Detail",
    without=INTERNAL,
    instead={"cure": str, "cure_intervention": Change},
    optional=frozenset(("cure_intervention",)),
    whole=False,
)
Verdict = shape_of(
    VerdictFile,
    "Verdict",
    instead={
        "causes": types.GenericAlias(list, FoundCause),
        "details": types.GenericAlias(dict, (str, Detail)),
    },
)


class Examined(Shape):
    """A verdict and the directory that holds all that it rests on."""

    directory: str
    """The run directory, for `examine` and `compare`; relative to where the server was started."""
    report: str
    """The report as a page for people."""
    verdict: Verdict  # type: ignore[valid-type]  # made at run time, from the types of a verdict
    """All that was found: the same as verdict.json in the directory."""


class Compared(Shape):
    """Two runs side by side."""

    markdown: str
    """The first step at which they part, settings that differ, curves in numbers."""


class KnownCause(Identified):
    """A cause of the catalogue."""

    stage: str
    """Where such a fault sits; earlier stages outrank later ones."""
    summary: str
    """The fault in a line."""
    needs: list[str]
    """What has to be seen to judge it."""
    overlaps: list[str]
    """Causes that the same fault may also be blamed on."""


class Catalogue(Shape):
    """All causes."""

    causes: list[KnownCause]
    """Earlier stages first."""


class Explained(KnownCause):
    """A cause with its page."""

    page: str
    """Meaning, harm, how it is judged, how to fix it, when the verdict is wrong."""


class Slope(Shape):
    """Slopes along one direction."""

    name: str
    """The input that was moved, or all of them."""
    outcome: Outcome
    """What is found along it."""
    claimed: Number
    """Slope by the gradient that was given."""
    true: Number
    """Slope of the loss."""
    bound: Number
    """How far the two may differ by rounding and noise alone."""
    error: Number
    """The difference, as a share of the true slope."""
    how: str
    """How the true slope was found."""


class GradientChecked(Shape):
    """Whether a gradient is right."""

    outcome: Outcome
    """Cannot tell: the bound is too coarse to judge."""
    wrong: list[str]
    """Inputs whose gradient is wrong."""
    whole: Slope
    """Along one random direction through all inputs."""
    parts: list[Slope]
    """Along single inputs, where the whole is not right."""
