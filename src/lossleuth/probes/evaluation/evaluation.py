"""Evaluations in a recording: the reported metric, and the true value on the same batches.

For each number that the program takes out of an evaluation: which positions it counts, with which
weights and against which tokens; and the same mean without pads, without dropout, against the next
tokens, and with every token weighing the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lossleuth.findings.evaluation import Evaluation, Metric, MetricValue
from lossleuth.probes.evaluation.accuracy import accuracies
from lossleuth.probes.evaluation.batches import EvaluatedBatch, evaluated_batches
from lossleuth.probes.evaluation.counted_rows import Counted, counted_rows
from lossleuth.probes.evaluation.metric_scalars import MetricScalar, metric_scalars
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.index import Index
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.roles.alignment import OFFSETS
from lossleuth.tape.walk_back import origin
from lossleuth.tape.window import Window

# How far a number may be from a weighted sum of cross-entropies to count as one: a hundred times
# the rounding of float32. Picked by hand.
MAX_RELATIVE_DISTANCE = 1e-5
# A position with less than this share of the largest weight is touched by something other than
# its target, such as smoothing. Picked by hand.
MIN_WEIGHT_SHARE = 0.02
# Operations that a number goes through without changing.
KEEPS_VALUE = ("detach", "alias", "clone", "view", "_to_copy", "squeeze", "reshape")


def evaluation(window: Window) -> Evaluation | None:
    """Measure all evaluations; None if there are none."""
    index = Index(window.tape)
    found = evaluated_batches(window, index)
    batches = found.batches
    guessed = accuracies(window, index)
    if not batches:
        if found.problem is None and not guessed:
            return None
        problem = found.problem
        whole = problem is None and not window.is_partial
        return Evaluation(0, None, 0, [], guessed, whole=whole, untested=problem)
    metrics: dict[tuple[str | None, bool, int], Metric] = {}
    truths: dict[int, tuple[float, float, int]] = {}
    for scalar in metric_scalars(window.tape, {b.logits: i for i, b in enumerate(batches)}):
        try:
            measured, known = _measured(index, scalar, batches)
        except CannotReplay:
            continue
        # How many targets there are, for one, is no measurement of the model.
        if not measured.count:
            continue
        key = (scalar.place, scalar.read, scalar.ordinal)
        metrics.setdefault(key, Metric(scalar.place, scalar.read)).numbers.append(measured)
        for batch, (unexplained, mean, count) in known.items():
            if batch not in truths or unexplained < truths[batch][0]:
                truths[batch] = (unexplained, mean, count)
    count = sum(c for _, _, c in truths.values())
    true = sum(mean * c for _, mean, c in truths.values()) / count if count else None
    return Evaluation(
        len(batches),
        true,
        count,
        list(metrics.values()),
        guessed,
        whole=found.whole and not window.is_partial,
        untested=found.problem,
    )


Truths = dict[int, tuple[float, float, int]]


def _measured(
    index: Index, scalar: MetricScalar, batches: Sequence[EvaluatedBatch]
) -> tuple[MetricValue, Truths]:
    """One number taken apart; also the true loss of each batch, as far as this number tells."""
    chosen = [batches[i] for i in scalar.batches]
    value, derivatives = _differentiated(index, scalar, chosen)
    given = scalar.value if scalar.value is not None else value
    parts = [
        _Part(batch, counted_rows(batch.rows_NV, derivative))
        for batch, derivative in zip(chosen, derivatives, strict=True)
    ]
    truths = {
        i: (part.counted.unexplained, part.true, part.real_count)
        for i, part in zip(scalar.batches, parts, strict=True)
        if part.real_count
    }
    texts, count = sum(b.texts for b in chosen), sum(len(p.counted.places) for p in parts)
    floor = abs(given - value)
    kind, scale = "other", 1.0
    offset, explained, following = _offset(parts)
    if parts and all(p.counted.is_plain for p in parts) and _same_sign(parts):
        total, weight = sum(p.total for p in parts), sum(p.weight for p in parts)
        kind, scale = _kind(value, total, weight, parts)
    if kind == "other":
        other = MetricValue(
            value=given,
            batches=scalar.batches,
            texts=texts,
            count=count,
            kind=kind,
            is_exponential=_is_exponential(index, scalar.tensor),
            offset=offset,
            explained=explained,
            next_explained=following,
            floor=floor,
        )
        return other, truths
    weight = sum(p.weight for p in parts) / scale
    real = sum(p.real_weight for p in parts) / scale
    reals = sum(p.real_count for p in parts)
    means = [p.total / p.weight for p in parts]
    counted = MetricValue(
        given,
        scalar.batches,
        texts,
        count,
        kind,
        mean=sum(p.total for p in parts) / scale / weight,
        evenly=sum(p.evenly for p in parts) / count,
        by_batch=sum(means) / len(means),
        by_text=sum(m * p.batch.texts for m, p in zip(means, parts, strict=True)) / texts,
        unpadded=sum(p.real_total for p in parts) / scale / real if real else None,
        undropped=sum(p.undropped for p in parts) / scale / weight,
        aligned=_mean([p.aligned for p in parts]),
        true=sum(p.true * p.real_count for p in parts) / reals if reals else None,
        pads=sum(p.pads for p in parts),
        offset=offset,
        explained=explained,
        next_explained=following,
        floor=floor,
    )
    return counted, truths


def _same_sign(parts: Sequence[_Part]) -> bool:
    """Whether all weights go the same way: a difference of two losses is no mean."""
    signs = {bool(s) for p in parts for s in (p.counted.weights > 0)}
    return len(signs) == 1


def _is_exponential(index: Index, number: int) -> bool:
    """Whether an exponential made this number, if it was only moved since."""

    def moved_from(moved: int) -> int | None:
        maker = index.maker(moved)
        return maker.inputs[0] if maker and maker.name in KEEPS_VALUE and maker.inputs else None

    maker = index.maker(origin(number, moved_from))
    return maker is not None and maker.name in ("exp", "exp2", "exp_")


def _kind(value: float, total: float, weight: float, parts: Sequence[_Part]) -> tuple[str, float]:
    """What a number is of its cross-entropies, and what its weights are multiplied with."""
    near = MAX_RELATIVE_DISTANCE * max(1.0, abs(value))
    if abs(value - total) <= near:
        ones = all(
            bool(((p.counted.weights - 1).abs() <= MAX_RELATIVE_DISTANCE).all()) for p in parts
        )
        return "sum" if ones and abs(weight - 1) > MAX_RELATIVE_DISTANCE else "mean", 1.0
    if value > 0 and abs(math.log(value) - total / value) <= near:
        return "exponential", value
    return "other", 1.0


def _differentiated(
    index: Index, scalar: MetricScalar, chosen: Sequence[EvaluatedBatch]
) -> tuple[float, list[Tensor]]:
    """The number made again from the scores, and its derivative for those of each batch."""
    tape = index.excerpt([scalar.tensor], scalar.at, stops=[b.logits for b in chosen])
    leaves = {
        b.logits: b.rows_NV.double().reshape(tape.layouts[b.logits].shape).requires_grad_()
        for b in chosen
    }
    made = Replay(tape, cuts=Cuts.OPENED).run([scalar.tensor], leaves=leaves)[scalar.tensor]
    if not made.requires_grad:
        return float(made), [torch.zeros_like(b.rows_NV, dtype=torch.float64) for b in chosen]
    found = torch.autograd.grad(made.reshape(()), list(leaves.values()), allow_unused=True)
    derivatives = [
        torch.zeros_like(b.rows_NV, dtype=torch.float64)
        if g is None
        else g.reshape(len(b.rows_NV), -1)
        for b, g in zip(chosen, found, strict=True)
    ]
    return float(made.detach()), derivatives


class _Part:
    """What a number counts in one batch, as sums over it."""

    def __init__(self, batch: EvaluatedBatch, counted: Counted) -> None:
        self.batch, self.counted = batch, counted
        places, weights, targets = counted.places, counted.weights, counted.targets
        losses = _losses(batch.rows_NV, places, targets)
        free = batch.rows_NV if batch.undropped_NV is None else batch.undropped_NV
        undropped = _losses(free, places, targets)
        real = torch.ones_like(places, dtype=torch.bool)
        if batch.past_N is not None and batch.pad is not None:
            real = ~(batch.past_N[places] & (targets == batch.pad))
        self.weight, self.total = float(weights.sum()), float(weights @ losses)
        self.evenly = float(losses.sum())
        self.undropped = float(weights @ undropped)
        self.real_count, self.pads = int(real.sum()), int((~real).sum())
        self.real_weight = float(weights[real].sum())
        self.real_total = float(weights[real] @ losses[real])
        self.shares, following = self._shares()
        if not counted.is_plain:
            real = real & self._asked_for(following)
            self.real_count = int(real.sum())
        self.aligned, self.true = None, 0.0
        if following is not None:
            inside, next_tokens = following
            if bool(inside.any()):
                self.aligned = float(_losses(batch.rows_NV, places[inside], next_tokens).mean())
        is_next = self.shares.get(1, (1.0, 0.0))[0] >= 0.5
        if self.real_count and is_next:
            self.true = float(undropped[real].mean())
        elif following is not None and bool(following[0].any()):
            inside, next_tokens = following
            kept = real[inside]
            rows = _losses(free, places[inside][kept], next_tokens[kept])
            self.real_count, self.true = len(rows), float(rows.mean()) if len(rows) else 0.0
        else:
            self.real_count = 0

    def _asked_for(self, following: tuple[Tensor, Tensor] | None) -> Tensor:
        """The positions whose target a loss asks for, among those that other terms touch too."""
        weights = self.counted.weights.abs()
        asked = weights >= MIN_WEIGHT_SHARE * weights.max() if len(weights) else weights > 0
        if following is not None:
            inside, next_tokens = following
            asked[inside] &= self.counted.targets[inside] == next_tokens
        return asked

    def _shares(self) -> tuple[dict[int, tuple[float, float]], tuple[Tensor, Tensor] | None]:
        """For each offset the share of targets that are the token there, and the next tokens."""
        tokens, places = self.batch.tokens_BT, self.counted.places
        if tokens is None or not len(places):
            return {}, None
        length = tokens.shape[1]
        found, following = {}, None
        for offset in OFFSETS:
            column = places % length + offset
            inside = (column >= 0) & (column < length)
            there = tokens[(places // length)[inside], column[inside]]
            if offset == 1:
                following = inside, there
            if bool(inside.any()):
                # By weight: what another term makes of other positions is little.
                weights = self.counted.weights[inside].abs()
                same, whole = there == self.counted.targets[inside], float(weights.sum())
                found[offset] = (float(weights[same].sum()) / whole if whole else 0.0, whole)
        return found, following


def _losses(rows_NV: Tensor, places: Tensor, targets: Tensor) -> Tensor:
    chances = rows_NV[places].double().log_softmax(-1)
    return -chances.gather(-1, targets[:, None])[:, 0]


def _offset(parts: Sequence[_Part]) -> tuple[int | None, float, float]:
    """The offset that explains most targets, its share, and that of the next token."""
    shares: dict[int, float] = {}
    for offset in OFFSETS:
        known = [p.shares[offset] for p in parts if offset in p.shares]
        whole = sum(weight for _, weight in known)
        if whole:
            shares[offset] = sum(share * weight for share, weight in known) / whole
    if not shares:
        return None, 0.0, 0.0
    best = max(shares, key=lambda o: (shares[o], o == 1))
    return best, shares[best], shares.get(1, 0.0)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


PROBE = Probe(Evaluation, lambda a: evaluation(a.window))
