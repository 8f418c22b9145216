"""The claims of the founding case `kahan`, measured one by one.

The case blamed float32: a sum of 34 exponentials was said to lose percents, Kahan's summation to
cure that at no cost, and finite differences to confirm it. Each claim is a number, and each number
can be measured on the logits of the case's own network.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.labs.cases.hand_written_stack import Transformer
from lossleuth.labs.cases.kahan import LEARNING_RATE, PaddedBlockLoss, block_sum
from lossleuth.labs.cases.repaired_stack import REPAIRS, parts
from lossleuth.labs.cases.text import ALPHABET, SAMPLE, encode
from lossleuth.labs.cases.windows import Windows
from lossleuth.labs.precision.difference_sweep import sweep_of
from lossleuth.labs.precision.effects import Effect, cost_of_sum, sum_effects
from lossleuth.labs.precision.noise import BELOW, Noise, noise_of, ratio_of
from lossleuth.labs.precision.reference import sums_of, truth_of
from lossleuth.labs.precision.step import Step
from lossleuth.native.summation import row_sums

# Steps of the case's network before its logits are taken: it has begun to learn.
STEPS = 10
# What the case said that a sum loses at least.
CLAIMED_LOSS = 0.01
LARGE = 50_000
# From here on something has a cost.
DEAR = 1.5
SIZES = (34, 100, 1000, 1024)


@dataclass(frozen=True)
class Claim:
    """What was believed, what is measured, and whether that leaves it standing."""

    believed: str
    measured: str
    holds: bool

    @property
    def verdict(self) -> str:
        """In one word.

        >>> Claim("2 + 2 = 5", "4", holds=False).verdict
        'refuted'
        """
        return "holds" if self.holds else "refuted"


def kahan_step(steps: int = STEPS) -> Step:
    """Logits of the case's network, with the reduction repaired so that it learns."""
    torch.manual_seed(0)
    windows = Windows(encode(SAMPLE))
    model = Transformer(len(ALPHABET), parts=parts(REPAIRS))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    for number in range(steps):
        inputs_BT, targets_BT = windows.batch(number)
        loss = PaddedBlockLoss.apply(model(inputs_BT).flatten(0, 1), targets_BT.flatten())  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    inputs_BT, targets_BT = windows.batch(steps)
    with torch.no_grad():
        logits_NV = model(inputs_BT).flatten(0, 1)
    rows = torch.arange(len(logits_NV))
    half_N = rows // inputs_BT.shape[1] % 2 == 0
    source = f"case kahan after {steps} steps: {len(rows)} rows, V = {logits_NV.shape[1]}"
    return Step(source, logits_NV, targets_BT.flatten(), half_N)


def claims_of_kahan(step: Step) -> list[Claim]:
    """Every claim, measured on a step of the case."""
    truth = truth_of(step.logits_NV.numpy(), step.targets_N.numpy())
    noise = noise_of(step, truth)
    effects = {effect.name: effect for effect in sum_effects(step, truth, noise)}
    drawn_NV = torch.randn(32, LARGE, generator=torch.Generator().manual_seed(0))
    large_NV = (drawn_NV - drawn_NV.amax(1, keepdim=True)).exp()
    return [
        _loses_percents(step, effects["naive"], large_NV),
        _kahan_cures(step, effects["naive"], effects["kahan"]),
        _costs_nothing(large_NV),
        _differences_confirm(step, truth.typical_row),
        _harms_training(effects["naive"], noise),
    ]


def _loses_percents(step: Step, naive: Effect, large_NV: Tensor) -> Claim:
    exact_N = torch.from_numpy(sums_of(large_NV.numpy()).astype("float64"))
    large = float((row_sums(large_NV, "naive") / exact_N - 1).abs().max())
    V = step.logits_NV.shape[1]
    return Claim(
        f"float32 loses 1 to 5 % of a sum of {V} exponentials",
        f"a naive float32 sum is off by at most {naive.error:.1e} ({large:.1e} at V = {LARGE:,})",
        naive.error >= CLAIMED_LOSS,
    )


def dropped(size: int) -> int:
    """Entries of a block of this size that the case's reduction leaves out.

    >>> [dropped(size) for size in SIZES]
    [2, 36, 488, 0]
    """
    return size - int(block_sum(torch.ones(1, size)))


def _kahan_cures(step: Step, naive: Effect, kahan: Effect) -> Claim:
    """With every addition exact, which no summation can better, the reduction still loses."""
    x_NV = step.logits_NV.double()
    powers_NV = (x_NV - x_NV.amax(1, keepdim=True)).exp()
    lost_N = 1 - block_sum(powers_NV).squeeze(1) / powers_NV.sum(1)
    mean, most = float(lost_N.mean()), float(lost_N.max())
    named = ", ".join(f"{dropped(size)} of {size}" for size in SIZES)
    return Claim(
        "Kahan's summation is the cure",
        f"the reduction drops entries ({named}): a row loses {mean:.1%} by it, up to "
        f"{most:.0%}, even in float64; Kahan only makes the {naive.error:.0e} {kahan.error:.0e}",
        most < CLAIMED_LOSS,
    )


def _costs_nothing(large_NV: Tensor) -> Claim:
    believed = "Kahan's summation costs nothing"
    naive, kahan = (cost_of_sum(large_NV, method) for method in ("naive", "kahan"))
    if not naive or not kahan:
        return Claim(believed, "4 dependent additions for 1 (not timed: no native library)", False)
    ratio = kahan / naive
    measured = (
        f"{ratio:.1f} times a plain sum: {kahan:.1f} ns a number for {naive:.1f}, serial code"
    )
    return Claim(believed, measured, ratio < DEAR)


def _differences_confirm(step: Step, row: int) -> Claim:
    narrow, wide = (
        sweep_of(step.logits_NV[row], int(step.targets_N[row]), name)
        for name in ("float32", "float64")
    )
    small, good = narrow.at(1e-5), narrow.at(1e-2)
    return Claim(
        "finite differences at 1e-5 show the gradient to be wrong",
        f"the right gradient shows {small.median:.0%} there (median entry) and {good.median:.3%} "
        f"at 1e-2; in float64 at 1e-5 {wide.at(1e-5).median:.0e}: the quotient is noise",
        small.median < CLAIMED_LOSS,
    )


def _harms_training(naive: Effect, noise: Noise) -> Claim:
    ratio = ratio_of(naive.update, noise.update)
    return Claim(
        "rounding of the sum keeps it from learning",
        f"it moves the loss by {naive.loss:.0e} nats and the update by {naive.update:.0e} of its "
        f"size, {ratio:.0e} of the step's own noise: {naive.verdict}",
        naive.verdict != BELOW,
    )
