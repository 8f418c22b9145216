"""The shared types."""

from lossleuth.types.errors import BadInput


def test_a_refusal_says_what_was_expected_found_and_what_to_do() -> None:
    refusal = BadInput("a file", "nothing", "give one")
    assert str(refusal) == "expected a file, found nothing: give one"
    assert (refusal.expected, refusal.found, refusal.remedy) == ("a file", "nothing", "give one")
