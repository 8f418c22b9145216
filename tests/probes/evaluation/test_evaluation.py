"""What a reported number counts, and what is true of the same batches."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import pytest
import torch
from measured_steps import evaluated, held_back, read_means, read_smoothed
from steps import VOCABULARY, SmallModel, recorded_step, shifted_loss
from torch import Tensor
from torch.nn import functional as F

from lossleuth.findings.evaluation import Evaluation, MetricValue
from lossleuth.probes.evaluation.evaluation import evaluation


def found(measure: object, change: Callable[[SmallModel], None] | None = None) -> Evaluation:
    result = evaluation(evaluated(measure, change))  # type: ignore[arg-type]  # a measurement
    assert result is not None
    return result


def read(measured: Evaluation) -> list[MetricValue]:
    (metric,) = (m for m in measured.metrics if m.read)
    return metric.numbers


def each(loss_of: Callable[[Tensor, Tensor], Tensor]) -> Callable[[SmallModel], None]:
    """Reads a loss of every batch, of scores by position and next tokens."""

    def measure(model: SmallModel) -> None:
        for tokens in held_back():
            loss_of(model(tokens[:, :-1]), tokens[:, 1:]).item()

    return measure


def test_a_step_without_evaluation_has_none() -> None:
    assert evaluation(recorded_step()) is None


def test_a_plain_mean_is_what_it_says_and_the_truth_weighs_tokens_alike() -> None:
    measured = found(read_means)
    first, second = read(measured)
    assert (first.kind, first.count, second.count, first.offset) == ("mean", 24, 8, 1)
    for number in (first, second):
        assert number.mean == pytest.approx(number.value, abs=1e-6)
        assert number.true == pytest.approx(number.value, abs=1e-6)
    assert measured.count == 32
    assert measured.true == pytest.approx((24 * first.value + 8 * second.value) / 32, abs=1e-6)


def test_an_evaluation_whose_beginning_was_dropped_is_not_whole() -> None:
    window = evaluated(read_means)
    for is_partial in (False, True):
        window.is_partial = is_partial
        measured = evaluation(window)
        assert measured is not None and measured.whole is not is_partial


def test_a_mean_of_means_weighs_tokens_unevenly() -> None:
    def measure(model: SmallModel) -> None:
        total = sum(shifted_loss(model, tokens) for tokens in held_back())
        (total / 2).item()  # type: ignore[attr-defined]  # a tensor

    (number,) = read(found(measure))
    assert number.batches == (0, 1)
    assert number.mean == pytest.approx(number.value, abs=1e-6)
    assert number.evenly == pytest.approx(number.true)
    assert number.by_batch == pytest.approx(number.mean)
    assert abs((number.mean or 0) - (number.evenly or 0)) > 0.01


def test_a_difference_of_two_losses_is_no_mean() -> None:
    def measure(model: SmallModel) -> None:
        first, second = (shifted_loss(model, tokens) for tokens in held_back())
        (2 * first - second).item()

    (number,) = read(found(measure))
    assert (number.kind, number.mean) == ("other", None)


def test_an_entropy_does_not_ask_for_the_next_token() -> None:
    def entropy(scores: Tensor, targets: Tensor) -> Tensor:
        # Picked from as well, or nothing would tell that these are scores.
        chances = scores.log_softmax(-1)
        picked = chances.gather(-1, targets[..., None]).detach().mean()
        return -(chances.exp() * chances).sum(-1).mean() + 0 * picked

    for number in read(found(each(entropy))):
        assert number.kind == "other"
        assert number.next_explained < 0.5
    assert all(n.next_explained == 1.0 for n in read(found(read_smoothed)))


def test_a_penalty_on_positions_without_target_hides_no_cross_entropy() -> None:
    def penalised(scores: Tensor, targets: Tensor) -> Tensor:
        targets = targets.clone()
        targets[:, 2:] = -100
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        return loss + 1e-2 * scores.square().mean()

    def plain(scores: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(scores[:, :2].flatten(0, 1), targets[:, :2].flatten())

    measured = found(each(penalised))
    for number in read(measured):
        assert number.kind == "other"
        assert number.next_explained > 0.9
    sound = found(each(plain))
    assert (measured.count, measured.true) == (sound.count, pytest.approx(sound.true, abs=1e-6))


def test_a_sum_and_an_exponential_are_known() -> None:
    def summed(scores: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")

    assert [n.kind for n in read(found(each(summed)))] == ["sum", "sum"]
    exponential = read(found(each(lambda s, t: summed(s, t).div(t.numel()).exp())))
    assert [n.kind for n in exponential] == ["exponential", "exponential"]
    assert all(n.mean == pytest.approx(math.log(n.value), abs=1e-6) for n in exponential)


def test_a_smoothed_loss_is_none_of_these_but_the_truth_is_known_from_it() -> None:
    measured = found(read_smoothed)
    assert {n.kind for n in read(measured)} == {"other"}
    assert measured.true == pytest.approx(found(read_means).true, abs=1e-6)


def test_an_evaluation_in_inference_mode_is_taken_apart_as_well() -> None:
    def measure(model: SmallModel) -> None:
        with torch.inference_mode():
            for tokens in held_back():
                chances = model(tokens[:, :-1]).log_softmax(-1)
                chances.gather(-1, tokens[:, 1:, None]).mean().neg().item()

    measured = found(measure)
    assert [n.kind for n in read(measured)] == ["mean", "mean"]
    assert measured.true == pytest.approx(found(read_means).true, abs=1e-6)


def test_dropout_makes_another_number() -> None:
    def dropping(model: SmallModel) -> None:
        model.between = lambda x: F.dropout(x, 0.5)

    for number in read(found(read_means, dropping)):
        assert number.mean == pytest.approx(number.value, abs=1e-6)
        # Sums of so many terms, in an order that depends on the processor.
        rounding = number.count * sys.float_info.epsilon
        assert number.undropped == pytest.approx(number.true, rel=rounding)
        assert abs(number.value - (number.undropped or 0)) > 1e-3
    for number in read(found(read_means)):
        assert number.undropped == number.mean


@pytest.mark.parametrize(("first", "offset"), [(0, 0), (2, 2)])
def test_targets_at_another_offset_are_seen(first: int, offset: int) -> None:
    def measure(model: SmallModel) -> None:
        for tokens in held_back():
            scores = model(tokens)[:, : tokens.shape[1] - first]
            F.cross_entropy(scores.flatten(0, 1), tokens[:, first:].flatten()).item()

    for number in read(found(measure)):
        assert (number.offset, number.explained) == (offset, 1.0)
        assert number.next_explained < 0.1
        assert number.aligned is not None and abs(number.aligned - number.value) > 0.01


def padded(counts: bool) -> Callable[[SmallModel], None]:
    def measure(model: SmallModel) -> None:
        generator = torch.Generator().manual_seed(4)
        tokens = torch.randint(1, VOCABULARY, (4, 9), generator=generator)
        for row, length in enumerate((9, 7, 5, 4)):
            tokens[row, length:] = 0
        scores = model(tokens[:, :-1])
        losses = F.cross_entropy(scores.mT, tokens[:, 1:], reduction="none")
        if counts:
            losses.mean().item()
        else:
            real = tokens[:, 1:] != 0
            (losses * real).sum().div(real.sum()).item()

    return measure


def test_padding_that_counts_is_told_from_padding_that_is_masked_later() -> None:
    (number,) = read(found(padded(counts=True)))
    # Inputs are 8 long: 0, 1, 3 and 4 of their positions are padding.
    assert (number.count, number.pads) == (32, 8)
    assert number.unpadded is not None and abs(number.unpadded - number.value) > 0.01
    (sound,) = read(found(padded(counts=False)))
    assert (sound.count, sound.pads) == (21, 0)
    assert sound.unpadded == sound.mean


def test_an_exponential_of_another_loss_is_known_as_one() -> None:
    def measure(scores: Tensor, targets: Tensor) -> Tensor:
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), label_smoothing=0.1)
        return loss.exp()

    for number in read(found(each(measure))):
        assert (number.kind, number.is_exponential) == ("other", True)
