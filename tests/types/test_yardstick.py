"""What references made of a run's batches, as it is stored."""

from __future__ import annotations

import json

from lossleuth.types.plain import from_plain, to_plain
from lossleuth.types.yardstick import Yardstick


def test_it_comes_back_as_it_was_stored() -> None:
    for yardstick in (
        Yardstick("its targets are not the next tokens"),
        Yardstick(None, (0, 1), (3.5, 2.25), (0,), (3.0,), (64, 64), 900, 1000, 3e-3, 34, 2),
    ):
        assert from_plain(Yardstick, json.loads(json.dumps(to_plain(yardstick)))) == yardstick
