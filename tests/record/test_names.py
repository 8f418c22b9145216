"""Names that were never recorded are refused, not taken for gaps."""

from __future__ import annotations

import pytest

from lossleuth.record.names import in_utf8, refuse_unknown
from lossleuth.types.errors import BadInput


def test_a_known_name_passes() -> None:
    assert refuse_unknown("scalar", "loss", ["lr", "loss"]) is None
    assert refuse_unknown("scalar", "loss", {"loss": 1}) is None


def test_an_unknown_name_is_refused_with_what_there_is() -> None:
    with pytest.raises(BadInput) as caught:
        refuse_unknown("column", "nrm", ["norm"])
    assert str(caught.value) == (
        "expected the name of a recorded column, found 'nrm': there are 'norm'"
    )


def test_many_and_long_names_make_a_short_sentence() -> None:
    with pytest.raises(BadInput) as caught:
        refuse_unknown("scalar", "x" * 10**6, ("y" * 10**5 + str(i) for i in range(1000)))
    assert "and 980 more" in str(caught.value)
    assert len(str(caught.value)) < 2500


def test_an_empty_record_says_so() -> None:
    with pytest.raises(BadInput, match="there is none in this record"):
        refuse_unknown("scalar", "loss", [])


def test_text_that_utf_8_cannot_hold_is_spelled_out() -> None:
    assert in_utf8("naïve") == "naïve"
    assert in_utf8("\ud800") == "\\ud800"
