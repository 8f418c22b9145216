"""What the examiner asks of the process that makes a yardstick. It travels as an argument."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from lossleuth.types.plain import from_plain, to_plain


@dataclass(frozen=True)
class Order:
    """Which steps of which file, and what is known of them.

    >>> order = Order("batches.bin", 0, 9, trained=500, vocabulary=34, until=0.0)
    >>> Order.read(order.text) == order
    True
    """

    batches: str
    # Steps of the run, both included; the reference counts them from 0.
    first: int
    last: int
    # Elements of all that the run trains, and the tokens that it chooses among.
    trained: int
    vocabulary: int
    # When it has to be over, in seconds since the epoch.
    until: float
    # Where no loss was seen to take targets: padding that is not supervised, the time axis of the
    # tokens, and by step how many targets count.
    pad: int | None = None
    time_axis: int = 1
    supervised: Mapping[int, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As an argument."""
        return json.dumps(to_plain(self))

    @classmethod
    def read(cls, text: str) -> Order:
        """What `text` says."""
        return from_plain(cls, json.loads(text))
