"""Numbers that a run printed, as exactly as they were printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lossleuth.run_directory import OUTPUT
from lossleuth.types.observed import PrintedNumber

NUMBER = re.compile(rb"(?<![\w.])[-+]?\d+(?:\.(\d+))?(?:[eE]([-+]?\d+))?(?![\w.]*\w)")
# What is read of the output of one evaluation, and numbers in it that are kept: the last of each.
MAX_BYTES, MAX_NUMBERS = 1 << 16, 1000


def printed_between(directory: Path, stretch: Sequence[int] | None) -> list[PrintedNumber]:
    """The numbers in a stretch of a run's output: value, half a unit of the last digit, line."""
    if not stretch:
        return []
    begin, end = stretch
    begin = max(begin, end - MAX_BYTES)
    try:
        with (directory / OUTPUT).open("rb") as stream:
            stream.seek(begin)
            text = stream.read(max(0, end - begin))
    except OSError:
        return []
    # Output over the limit was discarded and cannot be read.
    return numbers_in(text) if len(text) == end - begin else []


def numbers_in(text: bytes) -> list[PrintedNumber]:
    """All numbers with a digit after the point or an exponent, or whole ones of four digits.

    >>> [n.value for n in numbers_in(b"epoch 3: val 2.3456, ppl 1.04e+01 (v1.2.3, 4a)")]
    [2.3456, 10.4]
    """
    found = []
    for line, words in enumerate(text.splitlines()):
        for match in NUMBER.finditer(words):
            decimals, exponent = match[1] or b"", int(match[2] or 0)
            digits = len(match[0].lstrip(b"+-0.").split(b"e")[0].split(b"E")[0].replace(b".", b""))
            if not decimals and digits < 4:
                continue
            half = 0.5 * 10.0 ** (exponent - len(decimals))
            found.append(PrintedNumber(float(match[0]), half, digits, line))
    return found[-MAX_NUMBERS:]
