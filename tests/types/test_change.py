"""Changes and what they do."""

from __future__ import annotations

import json
import math
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.record import strict_json
from lossleuth.types.change import NON_FINITE, Change, Effect


def effect(nats: float, error: float = 0.01, seeds: int = 3) -> Effect:
    return Effect(Change.of("scale_lr", factor=0.1), nats, error, seeds, 80, 4.0, 4.0 - nats, 5.0)


@pytest.mark.parametrize(
    ("nats", "error", "seeds", "better"),
    [(0.5, 0.01, 3, True), (0.5, 0.01, 2, False), (0.5, 0.2, 3, False), (-0.5, 0.01, 3, False)],
)
def test_better_is_beyond_three_standard_errors_over_three_seeds(
    nats: float, error: float, seeds: int, better: bool
) -> None:
    assert effect(nats, error, seeds).is_better is better


def test_a_run_that_was_lost_makes_no_progress() -> None:
    lost = effect(0.5)._replace(without=math.inf)
    assert not lost.makes_without(0.0)
    assert effect(0.5).makes_without(0.5)


NAMES = st.text("abz_", min_size=1, max_size=6)
AWKWARD = ("p, q", "a=b", "f(x)", ")", "(", "", "nan", "1e5", "True")
TEXTS = st.text(string.printable + "é∞", max_size=8) | st.sampled_from(AWKWARD)
OPTIONS = st.booleans() | st.integers() | st.floats() | TEXTS.filter(lambda t: t not in NON_FINITE)
CHANGES = st.builds(
    lambda name, options: Change.of(name, **options),
    NAMES,
    st.dictionaries(NAMES, OPTIONS, max_size=3),
)


@given(CHANGES)
def test_a_change_that_is_stored_comes_back_as_it_was(change: Change) -> None:
    stored = strict_json.dumps(change.as_json())
    # By their words, since NaN is not equal to itself, and 1 is equal to True.
    assert repr(Change.from_json(json.loads(stored))) == repr(change)


@given(CHANGES, st.lists(st.floats(), min_size=5, max_size=5))
def test_an_effect_that_is_stored_comes_back_as_it_was(
    change: Change, numbers: list[float]
) -> None:
    nats, error, *losses = numbers
    found = Effect(change, nats, error, 3, 80, *losses, measure="differentiated loss")
    assert repr(Effect.from_json(json.loads(strict_json.dumps(found.as_json())))) == repr(found)


@pytest.mark.parametrize("word", NON_FINITE)
def test_a_text_that_would_come_back_as_a_number_is_not_stored(word: str) -> None:
    with pytest.raises(ValueError, match="would be read back as a number"):
        Change.of("use_rule", rule=word).as_json()
