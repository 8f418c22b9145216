"""Format numbers for texts and axes."""

from __future__ import annotations

import math
from collections.abc import Sequence


def format_number(value: float, digits: int = 4) -> str:
    """A number with a few significant digits.

    >>> [format_number(x) for x in (3.14159, 0.00001234, 123456.0, math.nan, -math.inf)]
    ['3.142', '1.234e-05', '123456', 'NaN', '-inf']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.{digits}g}"


def ticks(low: float, high: float, max_count: int = 6) -> list[float]:
    """Round numbers between two limits, for an axis.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / max(1, max_count - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(i * step, digits) for i in range(first, last + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """Labels of an axis, with enough digits to be distinct.

    >>> labels([9.21034, 9.21036]), labels([0.0, 0.5])
    (['9.2103', '9.2104'], ['0', '0.5'])
    """
    for digits in range(4, 16):
        texts = [format_number(value, digits) for value in values]
        if len(set(texts)) == len(set(values)):
            return texts
    return [repr(value) for value in values]


def powers(low: float, high: float, max_count: int = 6) -> list[float]:
    """Powers of ten between two limits, for a log axis; a short axis also has their 2x and 5x.

    >>> powers(0.02, 300.0), powers(0.9, 8.0)
    ([0.1, 1.0, 10.0, 100.0], [1.0, 2.0, 5.0])
    """
    if high < 30 * low:
        scale = 10.0 ** math.floor(math.log10(low))
        fine = [m * s for s in (scale, 10 * scale) for m in (1.0, 2.0, 5.0)]
        return [value for value in fine if low <= value <= high] or [low, high]
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / max_count))
    return [10.0**i for i in range(first, last + 1, stride)] or [low, high]
