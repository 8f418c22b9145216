"""Which steps are looked at closely."""

from __future__ import annotations

from lossleuth.observe.sampling import EVERY, FIRST_STEPS, is_sampled


def test_all_first_steps_and_then_few() -> None:
    assert all(map(is_sampled, range(FIRST_STEPS)))
    later = [step for step in range(FIRST_STEPS, FIRST_STEPS + 10 * EVERY) if is_sampled(step)]
    assert len(later) == 10
