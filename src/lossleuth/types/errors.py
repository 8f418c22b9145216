"""What a command says when it cannot work with what it was given."""

from __future__ import annotations


class BadInput(Exception):
    """What the user gave cannot be worked with: one plain sentence, exit code 2.

    The sentence says what was expected, what was found and what to do.

    >>> print(BadInput("a text file", "no file at 'corpus.txt'", "check the path after --data"))
    expected a text file, found no file at 'corpus.txt': check the path after --data
    """

    def __init__(self, expected: str, found: str, remedy: str) -> None:
        super().__init__(f"expected {expected}, found {found}: {remedy}")
        self.expected = expected
        self.found = found
        self.remedy = remedy
