"""The process that makes a yardstick: reads the kept batches, trains, prints what it has found."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lossleuth.native import library as native
from lossleuth.native.ngrams import ngrams
from lossleuth.record.kept_batches import kept_steps
from lossleuth.types.plain import to_plain
from lossleuth.types.yardstick import Yardstick
from lossleuth.yardstick.order import Order
from lossleuth.yardstick.supervised_batches import Batch, Supervision, batches_of

# Targets that the mixture of n-grams is scored on, with the native library and without: 2 s.
MAX_COUNTED, MAX_IN_PYTHON = 1_000_000, 50_000
# Parameters from which on several threads gain more than they cost. Picked by hand.
WORTH_THREADS = 1_000_000
# Share of the steps that must have been understood.
MIN_UNDERSTOOD = 0.9
# How many targets there may be, of those that are known to count. Where they are guessed, the last
# of each row are missing; a program may give weights of 0 to some that its loss has taken.
LIKELY = (0.8, 1.15)


def main() -> None:
    """Carry out the order of the only argument."""
    print(json.dumps(to_plain(yardstick(Order.read(sys.argv[1])))))


def yardstick(order: Order) -> Yardstick:
    """The losses of the references, or why there are none."""
    known = understood(order)
    if isinstance(known, str):
        return Yardstick(known)
    # Here, so that what cannot be told is told without torch.
    import torch

    from lossleuth.yardstick.reference_run import train_reference

    if order.trained < WORTH_THREADS:
        torch.set_num_threads(1)
    numbers, steps = list(known), list(known.values())
    largest = max(int(max(b.tokens.max(), b.targets.max())) for step in steps for b in step)
    vocabulary = max(order.vocabulary, largest + 1)
    mixture = mixture_losses(steps, vocabulary)
    found = train_reference(steps, vocabulary, order.trained, order.until - time.time())
    reached = len(found.losses)
    return Yardstick(
        steps=numbers[:reached],
        losses=_rounded(found.losses),
        mixture_steps=numbers[: len(mixture)],
        mixture=_rounded(mixture),
        supervised=[sum(batch.count for batch in step) for step in steps[:reached]],
        parameters=found.parameters,
        trained=order.trained,
        rate=found.rate,
        vocabulary=vocabulary,
        planned=len(steps),
    )


def mixture_losses(
    steps: Sequence[Sequence[Batch]], vocabulary: int, most: int | None = None
) -> list[float]:
    """Of a mixture of n-grams at each step, before it learns what the step trains on."""
    if most is None:
        most = MAX_COUNTED if native.load() is not None else MAX_IN_PYTHON
    mixture, found, counted = ngrams(vocabulary), list[float](), 0
    for step in steps:
        count = sum(batch.count for batch in step)
        counted += count
        if counted > most:
            break
        found.append(sum(mixture.score(b.tokens, b.targets) for b in step) / count)
        for batch in step:
            mixture.learn(batch.tokens, batch.targets)
    return found


def _rounded(losses: Sequence[float]) -> list[float]:
    return [round(loss, 4) for loss in losses]


def understood(order: Order) -> dict[int, list[Batch]] | str:
    """The batches of each step whose targets are known, or why so few are."""
    supervision = Supervision(order.pad, order.time_axis, order.supervised)
    found: dict[int, list[Batch]] = {}
    seen = guesses = 0
    for kept in kept_steps(Path(order.batches)):
        if not order.first <= kept.step <= order.last:
            continue
        seen += 1
        batches = batches_of(kept, supervision)
        if batches:
            found[kept.step - order.first] = batches
            guesses += any(not micro_batch.targets for micro_batch in kept.micro_batches)
    if not seen:
        return "its batches were not kept"
    if len(found) < MIN_UNDERSTOOD * seen:
        return f"which token each target follows is known in {len(found)} of {seen} steps"
    if not _is_likely(found, order, must_be_known=guesses > 0):
        return "other targets count than the next tokens of its batches"
    return found


def _is_likely(steps: dict[int, list[Batch]], order: Order, *, must_be_known: bool) -> bool:
    """Whether as many targets were found as are known to count on recorded steps."""
    least, most = LIKELY
    known: Sequence[tuple[int, int]] = [
        (sum(batch.count for batch in steps[step]), count)
        for step, count in order.supervised.items()
        if step in steps
    ]
    if not known:
        return not must_be_known
    return all(least * count <= guess <= most * count for guess, count in known)


if __name__ == "__main__":
    main()
