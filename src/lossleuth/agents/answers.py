"""The shapes of answers, which clients see as JSON schemas.

The shape of a verdict is derived from the types it is written from, field descriptions included.
Fields that a later version adds are passed on unchanged.
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
from lossleuth.types import change, judgement, phases

# Strict JSON has no NaN and no infinity: they are written as strings.
Number = float | Literal["NaN", "Infinity", "-Infinity"]
# Keys written next to the fields of a type: the same change, machine-readable.
EXTRA_NOTES = {
    "intervention": "The change as an intervention and its options.",
    "cure_intervention": "The cure as an intervention and its options.",
}
Outcome = Literal["pass", "fail", "cannot tell"]


class Shape(BaseModel):
    """Common to all: the string below a field is its description."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class Identified(Shape):
    """Anything with the id of a cause."""

    id: str
    """Id of a cause; `explain` returns its page."""


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
    """The shape of a type's JSON: the same fields with the same descriptions.

    `instead` replaces the types of some fields and adds others. Unless `whole`, fields with a
    default and those in `optional` may be missing.
    """
    hints = {k: hint for k, hint in typing.get_type_hints(kind).items() if k not in without}
    notes, made = EXTRA_NOTES | field_notes(kind), dict[str, Any]()
    for field, hint in (hints | dict(instead or {})).items():
        may_miss = not whole and field in _defaults(kind) | optional
        # A model has a method of the name `schema`.
        alias = "schema" if field == "schema" else None
        note = Field(None if may_miss else ..., description=notes.get(field), alias=alias)
        kept = json_type(hint)
        made[f"{field}_version" if alias else field] = (kept | None if may_miss else kept, note)
    return create_model(name, __base__=base, __doc__=kind.__doc__, **made)


def json_type(hint: Any) -> Any:
    """The type of a value after a round trip through strict JSON.

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
    """A Literal of the values of these members."""
    return Literal.__getitem__(tuple(member.value for member in members))


def field_notes(kind: type) -> dict[str, str]:
    """The docstrings below the fields of a class, by field name.

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


# Types that have a shape of their own in an answer.
SHAPES: dict[Any, Any] = {}
Change = SHAPES[change.Change] = shape_of(
    change.Change, "Change", instead={"options": dict[str, Number | int | str | bool]}
)
Where = SHAPES[judgement.Where] = shape_of(judgement.Where, "Where")
Phase = SHAPES[phases.Phase] = shape_of(phases.Phase, "Phase")
Wrongness = SHAPES[judgement.Wrongness] = shape_of(judgement.Wrongness, "Wrongness")
Harm = SHAPES[change.Effect] = shape_of(
    change.Effect, "Harm", instead={"change": str, "intervention": Change}
)
FoundCause = shape_of(
    judgement.Judgement,
    "FoundCause",
    without=INTERNAL | ONLY_IN_DETAILS,
    # An empty object if no invariant is broken.
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
    """A verdict, and the directory with all its evidence."""

    directory: str
    """The run directory, for `examine` and `compare`; relative to the server's directory."""
    report: str
    """The report as an HTML page, for people."""
    verdict: Verdict  # type: ignore[valid-type]  # made at run time, from the types of a verdict
    """Everything that was found: the contents of verdict.json."""


class Compared(Shape):
    """A comparison of two runs."""

    markdown: str
    """The first step at which they diverge, settings that differ, and the curves as numbers."""


class KnownCause(Identified):
    """A cause in the catalogue."""

    stage: str
    """The stage of training with the fault; earlier stages outrank later ones."""
    summary: str
    """The fault in one line."""
    needs: list[str]
    """The evidence needed to judge it."""
    overlaps: list[str]
    """Causes that the same fault may also trigger."""


class Catalogue(Shape):
    """All causes."""

    causes: list[KnownCause]
    """Earlier stages first."""


class Explained(KnownCause):
    """A cause with its page."""

    page: str
    """Meaning, harm, how it is judged, how to fix it, when the verdict is wrong."""


class Slope(Shape):
    """Claimed and true slope along one direction."""

    name: str
    """The input that was moved, or all of them."""
    outcome: Outcome
    """The result along this direction."""
    claimed: Number
    """Slope according to the given gradient."""
    true: Number
    """Slope of the loss."""
    bound: Number
    """How far the two may differ through rounding and noise alone."""
    error: Number
    """The difference relative to the true slope."""
    how: str
    """How the true slope was measured."""


class GradientChecked(Shape):
    """Whether a gradient is right."""

    outcome: Outcome
    """Cannot tell: the bound is too coarse to judge."""
    wrong: list[str]
    """Inputs whose gradient is wrong."""
    whole: Slope
    """Along one random direction through all inputs."""
    parts: list[Slope]
    """Along single inputs, if the whole is not right."""
