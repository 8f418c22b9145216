"""Dataclasses as plain values and back."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.types.plain import NotOfThisType, from_plain, to_plain


@dataclass(frozen=True)
class Inner:
    name: str
    share: float | None = None


@dataclass(frozen=True)
class Outer:
    count: int
    inners: tuple[Inner, ...] = ()
    by_offset: dict[int, float] | None = None
    pair: tuple[str | None, int | None] = (None, None)
    kind: Literal["mean", "sum"] = "mean"
    right: bool = True


OUTERS = st.builds(
    Outer,
    st.integers(),
    st.lists(st.builds(Inner, st.text(), st.none() | st.floats(allow_nan=False))).map(tuple),
    st.none() | st.dictionaries(st.integers(), st.floats(allow_nan=False)),
    st.tuples(st.none() | st.text(), st.none() | st.integers()),
    st.sampled_from(["mean", "sum"]),
    st.booleans(),
)


@given(OUTERS)
def test_what_is_stored_comes_back(outer: Outer) -> None:
    assert from_plain(Outer, json.loads(json.dumps(to_plain(outer)))) == outer


def test_a_number_that_is_none_stays_one() -> None:
    assert math.isnan(from_plain(Inner, to_plain(Inner("a", math.nan))).share or 0)


def test_whole_numbers_are_floats_where_floats_are_expected() -> None:
    assert from_plain(Inner, {"name": "a", "share": 1}) == Inner("a", 1.0)


@pytest.mark.parametrize(
    ("plain", "where"),
    [
        ({"count": "3"}, "Outer.count"),
        ({"count": True}, "Outer.count"),
        ({"count": 1, "inners": [{"name": 1}]}, r"Outer.inners\[0\].name"),
        ({"count": 1, "inners": 3}, "Outer.inners"),
        ({"count": 1, "by_offset": {"one": 1.0}}, "Outer.by_offset"),
        ({"count": 1, "pair": [None]}, "Outer.pair"),
        ({"count": 1, "kind": "median"}, "Outer.kind"),
        ({"inners": []}, "Outer"),
        ([], "Outer"),
    ],
)
def test_another_type_is_refused_with_its_place(plain: Any, where: str) -> None:
    with pytest.raises(NotOfThisType, match=where):
        from_plain(Outer, plain)


def test_fields_of_a_newer_release_are_left_out() -> None:
    assert from_plain(Inner, {"name": "a", "unheard_of": [1]}) == Inner("a")


def test_a_lenient_reader_takes_the_default_and_still_needs_what_has_none() -> None:
    plain = {"count": 2, "by_offset": "odd", "inners": [{"name": "a", "share": "odd"}]}
    assert from_plain(Outer, plain, lenient=True) == Outer(2, (Inner("a"),))
    with pytest.raises(NotOfThisType):
        from_plain(Outer, {"count": "odd"}, lenient=True)
