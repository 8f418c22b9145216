"""What the process is told."""

from __future__ import annotations

from lossleuth.yardstick.order import Order


def test_an_order_travels_as_text() -> None:
    order = Order("batches.bin", 3, 9, 500, 34, 1e9, pad=0, time_axis=0, supervised={4: 64})
    assert Order.read(order.text) == order
