"""What the number formats of training can hold. Plain numbers: no torch, no numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class NumberFormat:
    """A binary floating-point format: bits of its significand, and the powers of two it reaches.

    >>> float16 = FORMATS["float16"]
    >>> float16.largest, f"{float16.smallest_normal:.3g}", f"{float16.smallest:.2g}"
    (65504.0, '6.1e-05', '6e-08')
    """

    name: str
    bits: int  # of the significand, the leading one included
    highest: int  # power of two of the largest numbers
    lowest: int  # power of two of the smallest normal numbers

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2 - 2.0 ** (1 - self.bits)) * 2.0**self.highest

    @property
    def smallest_normal(self) -> float:
        """Below this, digits get lost."""
        return 2.0**self.lowest

    @property
    def smallest(self) -> float:
        """The smallest number above 0; less than half of it becomes 0."""
        return 2.0 ** (self.lowest - self.bits + 1)

    @property
    def rounding(self) -> float:
        """The largest error of one rounding, as a share of the number."""
        return 2.0**-self.bits

    @property
    def largest_exponent(self) -> float:
        """Beyond this, an exponential is infinite, however ordinary its argument.

        >>> round(FORMATS["float16"].largest_exponent, 2)
        11.09
        """
        return math.log(self.largest)

    def room(self, largest: float) -> float:
        """How many times a number can double before it is infinite; NaN of 0 and of no number.

        >>> FORMATS["float16"].room(1.0) == FORMATS["float16"].room(2.0) + 1
        True
        """
        if not 0 < abs(largest) < math.inf:
            return -math.inf if math.isinf(largest) else math.nan
        return math.log2(self.largest) - math.log2(abs(largest))


FORMATS = {
    found.name: found
    for found in (
        NumberFormat("float16", 11, 15, -14),
        NumberFormat("bfloat16", 8, 127, -126),
        NumberFormat("float32", 24, 127, -126),
        NumberFormat("float64", 53, 1023, -1022),
    )
}
