"""What ways to compute do; both verdicts, each on a planted case."""

from __future__ import annotations

import math

import pytest
import torch

from lossleuth.labs.precision.effects import Effect, format_effects, in_format, sum_effects
from lossleuth.labs.precision.given_logits import generated
from lossleuth.labs.precision.noise import BELOW, noise_of
from lossleuth.labs.precision.reference import truth_of
from lossleuth.labs.precision.step import Step
from lossleuth.native.summation import METHODS

UNIT = 2.0**-24


def effects(step: Step) -> tuple[dict[str, Effect], dict[str, Effect]]:
    truth = truth_of(step.logits_NV.numpy(), step.targets_N.numpy())
    noise = noise_of(step, truth)
    found = sum_effects(step, truth, noise), format_effects(step, truth, noise)
    return ({e.name: e for e in found[0]}, {e.name: e for e in found[1]})


@pytest.fixture(scope="module")
def ordinary() -> tuple[dict[str, Effect], dict[str, Effect]]:
    return effects(generated(34, 200, seed=0))


def test_rounding_of_an_ordinary_step_is_below_its_noise(
    ordinary: tuple[dict[str, Effect], dict[str, Effect]],
) -> None:
    sums, formats = ordinary
    assert list(sums) == list(METHODS)
    for effect in sums.values():
        assert effect.verdict == BELOW
        # 33 additions of positive numbers lose at most half a last digit each.
        assert effect.error <= 33 * UNIT
        assert effect.loss <= effect.error * (1 + UNIT)
    assert formats["float32"].verdict == formats["our kernel"].verdict == BELOW


def test_methods_are_told_apart_by_their_errors() -> None:
    sums, _ = effects(generated(4000, 40, seed=0))
    assert sums["naive"].error > 10 * sums["kahan"].error > 10 * sums["float64"].error
    assert sums["naive"].update > sums["kahan"].update > sums["float64"].update


def test_a_large_vocabulary_summed_in_bfloat16_is_told_to_matter() -> None:
    """Planted: a sum in bfloat16 stands still at 256 while its terms go on."""
    _, formats = effects(generated(8000, 60, seed=0))
    assert formats["bfloat16, summed in it"].verdict.startswith("matters")
    assert formats["bfloat16, summed in it"].loss > 0.1
    assert formats["float32"].verdict == BELOW


def test_a_step_without_noise_leaves_nothing_irrelevant() -> None:
    """Planted: two halves that are the same, so that every error shows."""
    step = generated(34, 20, seed=0)
    twice = Step(
        "test",
        step.logits_NV.repeat_interleave(2, 0),
        step.targets_N.repeat_interleave(2),
        torch.arange(40) % 2 == 0,
    )
    sums, _ = effects(twice)
    assert sums["naive"].verdict.startswith("matters: update")


def test_float16_of_large_logits_breaks() -> None:
    step = generated(34, 20, seed=0)
    step.logits_NV[0, 0] = 70_000.0
    _, formats = effects(step)
    assert formats["float16"].verdict == "breaks: not finite"
    assert formats["bfloat16"].verdict != "breaks: not finite"


def test_entries_that_become_0_are_counted() -> None:
    logits = torch.zeros(4, 1000)
    logits[:, 1:] = -20.0
    step = Step("test", logits, torch.zeros(4, dtype=torch.long), torch.arange(4) < 2)
    _, formats = effects(step)
    # All entries but the target's are about 5e-10: half of float16's smallest is 3e-8.
    assert formats["float16"].flushed >= 0.999
    assert formats["bfloat16"].flushed < 0.01 and formats["float64"].flushed == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_format_is_off_by_its_own_rounding(dtype: torch.dtype) -> None:
    step = generated(34, 50, seed=1)
    truth = truth_of(step.logits_NV.numpy(), step.targets_N.numpy())
    loss, gradient = in_format(step.logits_NV, step.targets_N, dtype)
    unit, largest = torch.finfo(dtype).eps / 2, float(step.logits_NV.abs().max())
    # A logit is off by half a last digit of the largest, and so is its power, relatively.
    allowed = 4 * unit * max(1.0, largest)
    assert abs(loss - truth.loss) <= allowed * 2
    wrong = gradient.double() - torch.from_numpy(truth.gradient_NV.astype(float))
    tiny = torch.finfo(dtype).smallest_normal
    assert wrong.abs().max() <= 2 * allowed / 50 + tiny
    assert gradient.dtype is dtype


def test_our_kernel_is_nearer_than_float32(
    ordinary: tuple[dict[str, Effect], dict[str, Effect]],
) -> None:
    _, formats = ordinary
    assert formats["our kernel"].error <= 2 * UNIT
    assert formats["our kernel, exact"].loss <= 4e-15
    assert formats["our kernel"].loss < formats["bfloat16"].loss


def test_costs_are_times_and_threads_are_left_as_they_were() -> None:
    threads = torch.get_num_threads()
    sums, formats = effects(generated(34, 20, seed=0))
    assert torch.get_num_threads() == threads
    known = [e.nanoseconds for e in (*sums.values(), *formats.values()) if e.nanoseconds]
    assert len(known) >= 6 and all(0 < cost < math.inf for cost in known)
    assert formats["float16, summed in it"].nanoseconds is None
