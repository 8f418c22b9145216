"""Our own failures are counted, and the first is named."""

from __future__ import annotations

from lossleuth.observe.failures import Failures


def test_no_failure_needs_no_words() -> None:
    assert Failures().sentence() is None


def test_the_first_is_named_and_all_are_counted() -> None:
    failures = Failures()
    failures.note("one", ValueError("first"))
    failures.note("two", KeyError("second"))
    sentence = failures.sentence()
    assert sentence is not None
    assert sentence.startswith("2 internal errors while watching")
    assert "ValueError in one: first" in sentence
    assert "second" not in sentence
