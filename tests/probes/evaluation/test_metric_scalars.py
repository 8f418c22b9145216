"""Which single numbers come out of an evaluation."""

from __future__ import annotations

import torch
from measured_steps import evaluated, held_back, read_means
from steps import SmallModel, shifted_loss

from lossleuth.probes.evaluation.batches import evaluated_batches
from lossleuth.probes.evaluation.metric_scalars import MetricScalar, metric_scalars
from lossleuth.tape.replay.index import Index


def scalars(measure: object) -> list[MetricScalar]:
    window = evaluated(measure)  # type: ignore[arg-type]  # a measurement
    known = evaluated_batches(window, Index(window.tape)).batches
    return metric_scalars(window.tape, {b.logits: i for i, b in enumerate(known)})


def test_numbers_that_are_read_have_their_place_value_and_batch() -> None:
    found = [s for s in scalars(read_means) if s.read]
    assert [s.batches for s in found] == [(0,), (1,)]
    assert all(s.place and "measured_steps.py" in s.place for s in found)
    assert all(s.value is not None and 2 < s.value < 5 for s in found)


def test_a_number_made_of_all_batches_is_of_all_of_them() -> None:
    def measure(model: SmallModel) -> None:
        total = torch.zeros(())
        for tokens in held_back():
            total += shifted_loss(model, tokens)
        (total / 2).item()

    (found,) = (s for s in scalars(measure) if s.read)
    assert found.batches == (0, 1)


def test_a_number_that_is_looked_at_twice_is_one_and_two_of_a_line_are_two() -> None:
    def measure(model: SmallModel) -> None:
        for tokens in held_back():
            loss = shifted_loss(model, tokens)
            _ = loss.item() + loss.item(), (3 * loss).item()

    found = [s for s in scalars(measure) if s.read]
    assert [(s.batches, s.ordinal) for s in found] == [((0,), 0), ((0,), 1), ((1,), 0), ((1,), 1)]


def test_what_is_handed_on_unread_is_found_as_well() -> None:
    def measure(model: SmallModel) -> None:
        kept = [shifted_loss(model, tokens).repeat(len(tokens)) for tokens in held_back()]
        torch.cat(kept).numpy()

    found = scalars(measure)
    assert not any(s.read for s in found)
    assert {s.batches for s in found} == {(0,), (1,)}
