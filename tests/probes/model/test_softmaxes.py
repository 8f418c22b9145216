"""Softmaxes: of what, and over which axis."""

from __future__ import annotations

import pytest
import torch
from steps import VOCABULARY, SmallModel, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.model import Softmaxes
from lossleuth.probes.model.softmaxes import softmaxes
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


def found(window: Window) -> Softmaxes:
    return softmaxes(window, find_roles(window))


def test_a_sound_step_has_nothing_to_object_to() -> None:
    sound = found(recorded_step())
    assert sound.untested is None
    assert sound.probability_gap is None
    assert sound.classes_in_place == 1
    assert sound.crossed == ()
    assert not sound.picked_elsewhere
    assert sound.inner_place is None
    assert sound.place is not None


def test_a_softmax_of_probabilities_shows_rows_that_sum_to_one() -> None:
    def twice(model: nn.Module, tokens: Tensor) -> Tensor:
        shares = model(tokens[:, :-1]).softmax(-1)
        return F.cross_entropy(shares.flatten(0, 1), tokens[:, 1:].flatten())

    planted = found(recorded_step(twice))
    assert planted.probability_gap is not None
    assert planted.probability_gap < 1e-12
    first = twice.__code__.co_firstlineno
    assert planted.inner_place == f"{__file__}:{first + 1}"
    assert planted.place == f"{__file__}:{first + 2}"


def test_scores_that_are_merely_positive_are_no_probabilities() -> None:
    def positive(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1]).exp().flatten(0, 1)
        return F.cross_entropy(scores, tokens[:, 1:].flatten())

    gap = found(recorded_step(positive)).probability_gap
    assert gap is not None
    assert gap > 0.1


def attention(axis: int, *, turned: bool = False, joined: bool = False) -> object:
    def plant(model: SmallModel) -> None:
        def attend(h: Tensor) -> Tensor:
            scores = h @ h.transpose(-1, -2)
            weights = scores.softmax(axis)
            if turned:
                weights = weights.transpose(-1, -2)
            if joined:
                return (weights[:, None].flatten(0, 1) @ h[:, None].flatten(0, 1)).reshape(h.shape)
            return weights @ h

        model.between = attend

    return plant


@pytest.mark.parametrize("joined", [False, True])
def test_attention_over_the_wrong_axis_is_found_with_its_line(joined: bool) -> None:
    planted = found(recorded_step(change=attention(-2, joined=joined)))  # type: ignore[arg-type]  # plants
    ((file, _),) = planted.crossed
    assert file == __file__
    right = found(recorded_step(change=attention(-1, joined=joined)))  # type: ignore[arg-type]  # plants
    assert right.crossed == ()


def test_weights_that_are_turned_before_they_are_used_count_as_used() -> None:
    assert found(recorded_step(change=attention(-2, turned=True))).crossed == ()  # type: ignore[arg-type]  # plants
    assert found(recorded_step(change=attention(-1, turned=True))).crossed != ()  # type: ignore[arg-type]  # plants


@pytest.mark.parametrize(("axis", "elsewhere"), [(-1, False), (1, True), (0, True)])
def test_a_loss_normalised_over_positions_is_picked_elsewhere(axis: int, elsewhere: bool) -> None:
    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        logs = model(tokens[:, :-1]).log_softmax(axis)
        return F.nll_loss(logs.flatten(0, 1), tokens[:, 1:].flatten())

    assert found(recorded_step(loss_of)).picked_elsewhere is elsewhere


def test_classes_that_a_careless_view_scrambles_are_not_in_place() -> None:
    def scrambled(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1])
        mixed = scores.transpose(1, 2).reshape(-1, scores.shape[-1])
        return F.cross_entropy(mixed, tokens[:, 1:].flatten())

    share = found(recorded_step(scrambled)).classes_in_place
    assert share is not None
    assert share < 0.5

    def turned(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])

    assert found(recorded_step(turned)).classes_in_place == 1


def test_without_a_loss_of_classes_only_products_are_looked_at() -> None:
    def regression(model: nn.Module, tokens: Tensor) -> Tensor:
        return model(tokens).square().mean()

    other = found(recorded_step(regression))
    assert other.untested == "no softmax of a loss was found"
    assert other.crossed == ()


@pytest.mark.parametrize("number", [-torch.inf, -1e4, 0.0])
@pytest.mark.parametrize("is_scrambled", [False, True])
def test_classes_that_are_masked_on_the_way_are_in_place(
    number: float, *, is_scrambled: bool
) -> None:
    """A vocabulary that is padded to a round number."""
    out = torch.arange(VOCABULARY) >= VOCABULARY - 5

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(tokens[:, :-1])
        if is_scrambled:
            logits = logits.transpose(1, 2).reshape(logits.shape)
        logits = logits.masked_fill(out, number)
        aims = tokens[:, 1:].flatten() % (VOCABULARY - 5)
        return F.cross_entropy(logits.flatten(0, 1), aims)

    share = found(recorded_step(loss)).classes_in_place
    assert share is not None
    assert (share == 1) is not is_scrambled
