"""Leaks of two sound public programs, once blamed: later tokens matter, and do no harm."""

from __future__ import annotations

import pytest
import torch
from every_layout import Layout
from loss_layouts import LENGTH, WIDTH, Net, Options, inputs_and_targets, step_of
from torch import Tensor
from torch.nn import functional as F

from lossleuth.catalogue import cause
from lossleuth.causes.leaking import MIN_HARM, MIN_MOVE
from lossleuth.findings.model import Leaks
from lossleuth.probes.run import run_probes
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status

BUCKETS, CHUNK = 4, 4
EPSILON = 1e-9
NEVER = -1e9


def judged(layout: Layout, options: Options) -> tuple[list[Leaks], Judgement]:
    """What is found and said of a run that learns, of which three steps are recorded."""
    steps = [run_probes(step_of(layout, options, after=after)) for after in (0, 20, 40)]
    evidence = Evidence(recorded=steps)
    assert len(evidence.all(Leaks)) == len(steps)
    return evidence.all(Leaks), cause("future_leak").judged(evidence)


def loss_of(net: Net, h: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net.head(h).flatten(0, 1), y.flatten())


def largest_subtracted(net: Net, o: Options) -> Tensor:
    """Averages of all that came before, with weights that are powers.

    The largest exponent of the whole text is subtracted, so that none overflows. It cancels, but
    for what is added to the sum lest it be 0.
    """
    x, y = inputs_and_targets(o)
    h = net.embedded(x)
    exponents, values = net.mix(h)[..., :WIDTH], net.mix(h)[..., WIDTH : 2 * WIDTH]
    powers = (exponents - exponents.amax(1, keepdim=True)).exp()
    sums = (
        (powers * values).cumsum(1)
        if not o.sees_future
        else (powers * values).flip(1).cumsum(1).flip(1)
    )
    return loss_of(net, h + sums / (powers.cumsum(1) + EPSILON), y)


def sorted_into_buckets(net: Net, o: Options) -> Tensor:
    """Attention within chunks of positions that are sorted by a hash of what they hold.

    Which chunk a position comes to depends on all others; what it sees there came before it.
    """
    x, y = inputs_and_targets(o)
    h = net.embedded(x)
    q, k, v = net.mix(h).chunk(3, -1)
    plane = torch.randn(WIDTH, BUCKETS, generator=torch.Generator().manual_seed(1))
    places = torch.arange(LENGTH)
    order = ((q @ plane).argmax(-1) * LENGTH + places).argsort(-1)

    def chunks(t: Tensor) -> Tensor:
        whole = t.gather(1, order[..., None].expand(-1, -1, t.shape[-1]))
        return whole.reshape(len(x), LENGTH // CHUNK, CHUNK, -1)

    when = order.reshape(len(x), LENGTH // CHUNK, CHUNK)
    later = when[..., None, :] > when[..., :, None]
    scores = chunks(q) @ chunks(k).transpose(-1, -2) / WIDTH**0.5
    scores = scores if o.sees_future else scores.masked_fill(later, NEVER)
    seen = (scores.softmax(-1) @ chunks(v)).reshape(len(x), LENGTH, WIDTH)
    back = order.argsort(-1)[..., None].expand_as(seen)
    return loss_of(net, h + seen.gather(1, back), y)


def test_a_largest_exponent_that_cancels_is_no_leak_or_a_benign_one() -> None:
    found, said = judged(largest_subtracted, Options())
    for leaks in found:
        # It is more than rounding, so that it is seen, and of no use.
        assert leaks.future is not None and leaks.floor < leaks.future < 1e-4
        assert leaks.future_harm is not None and abs(leaks.future_harm) < 1e-4
    assert said.status in (Status.BENIGN, Status.REFUTED)


def test_a_leak_below_a_digit_of_the_program_is_none_before_it_has_learnt() -> None:
    step = run_probes(step_of(largest_subtracted))
    (leaks,) = step.all(Leaks)
    assert leaks.future is not None and leaks.floor < leaks.future < MIN_MOVE
    said = cause("future_leak").judged(Evidence(recorded=[step] * 3))
    assert said.status is Status.REFUTED and "expected 0" in said.because


def test_buckets_that_later_tokens_fill_are_no_leak() -> None:
    found, said = judged(sorted_into_buckets, Options())
    assert [leaks.future for leaks in found] == [0.0] * 3
    assert all(leaks.reach for leaks in found)
    assert said.status is Status.REFUTED


@pytest.mark.parametrize(
    ("layout", "status"),
    # The harmless leak hides the way of the other: a maximum is shared by all positions, as a code.
    [(largest_subtracted, Status.SUSPECTED), (sorted_into_buckets, Status.PROVEN)],
)
def test_the_same_that_sees_later_tokens_is_blamed_by_its_harm(
    layout: Layout, status: Status
) -> None:
    found, said = judged(layout, Options(sees_future=True))
    assert all(leaks.future is not None and leaks.future > 1e-3 for leaks in found)
    assert found[-1].future_harm is not None and found[-1].future_harm >= MIN_HARM
    assert said.status is status and "nats" in said.because
