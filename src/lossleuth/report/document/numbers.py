"""Numbers as they are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence


def shown(value: float, digits: int = 4) -> str:
    """A few significant digits, without needless ones.

    >>> [shown(x) for x in (3.14159, 0.00001234, 123456.0, math.nan, -math.inf)]
    ['3.142', '1.234e-05', '123456', 'not a number', '-infinite']
    """
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.{digits}g}"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two, for an axis.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    # As many digits as the smaller part of a wide span leaves.
    rough = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(i * step, digits) for i in range(first, last + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """Numbers on an axis, with as many digits as it takes to tell them apart.

    >>> labels([9.21034, 9.21036]), labels([0.0, 0.5])
    (['9.2103', '9.2104'], ['0', '0.5'])
    """
    for digits in range(4, 16):
        found = [shown(value, digits) for value in values]
        if len(set(found)) == len(set(values)):
            return found
    return [repr(value) for value in values]


def powers(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten between two, for a logarithmic axis; of a short one also 2 and 5 times them.

    >>> powers(0.02, 300.0), powers(0.9, 8.0)
    ([0.1, 1.0, 10.0, 100.0], [1.0, 2.0, 5.0])
    """
    if high < 30 * low:
        scale = 10.0 ** math.floor(math.log10(low))
        fine = [m * s for s in (scale, 10 * scale) for m in (1.0, 2.0, 5.0)]
        return [value for value in fine if low <= value <= high] or [low, high]
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / most))
    found = [10.0**i for i in range(first, last + 1, stride)]
    return found or [low, high]
