"""What best guesses are compared with."""

from __future__ import annotations

import pytest
import torch
from measured_steps import evaluated, held_back
from steps import SmallModel, recorded_step, shifted_loss
from torch import Tensor, nn

from lossleuth.findings.evaluation import Accuracy
from lossleuth.probes.evaluation.accuracy import accuracies
from lossleuth.tape.replay.index import Index
from lossleuth.tape.window import Window


def accuracies_of(window: Window) -> list[Accuracy]:
    return accuracies(window, Index(window.tape))


def right(model: SmallModel) -> None:
    for tokens in held_back():
        (model(tokens[:, :-1]).argmax(-1) == tokens[:, 1:]).float().mean().item()


def unshifted(model: SmallModel) -> None:
    for tokens in held_back():
        (model(tokens).max(-1).indices == tokens).sum().item()


def shifted_guesses(model: SmallModel) -> None:
    for tokens in held_back():
        guesses = model(tokens).softmax(-1).argmax(-1)
        guesses[:, :-2].reshape(-1).eq(tokens[:, 2:].reshape(-1)).float().mean().item()


@pytest.mark.parametrize(("measure", "offset"), [(right, 1), (unshifted, 0), (shifted_guesses, 2)])
def test_the_offset_of_labels_is_found(measure: object, offset: int) -> None:
    found = accuracies_of(evaluated(measure))  # type: ignore[arg-type]  # a measurement
    assert [(a.offset, a.explained) for a in found] == [(offset, 1.0)] * 2
    assert all(a.place and __file__ in a.place for a in found)
    for one in found:
        assert (one.next_explained == 1.0) is (offset == 1)


def test_the_value_is_the_programs_own_and_beside_it_the_aligned_one() -> None:
    told: list[tuple[float, float]] = []
    tokens = torch.tensor([[5, 5, 5, 1, 2, 3], [5, 5, 1, 5, 5, 2]])

    def measure(model: SmallModel) -> None:
        # The best guess is always one of the first and the sixth token.
        model.head.weight.zero_()
        model.head.weight[5] = 1
        guesses = model(tokens).argmax(-1)
        aligned = (guesses[:, :-1] == tokens[:, 1:]).float().mean()
        told.append(((guesses == tokens).float().mean().item(), float(aligned.numpy())))

    (found,) = accuracies_of(evaluated(measure))
    assert (found.value, found.aligned) == pytest.approx(told[-1])
    assert found.value != found.aligned


def test_an_accuracy_of_training_is_seen_too_and_one_that_nobody_reads_is_not() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens)
        (scores.argmax(-1) == tokens).float().mean().item()
        (scores.argmax(-1)[:, :-1] == tokens[:, 1:]).float().mean()
        return shifted_loss(model, tokens)

    assert [a.offset for a in accuracies_of(recorded_step(loss))] == [0]
