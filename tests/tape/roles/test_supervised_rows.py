"""Which rows of a loss count, in every layout, and what they are compared with."""

from __future__ import annotations

import pytest
import torch
from built_layouts import fused
from every_layout import FAULTS, LAYOUTS, NO_NEXT, PADDED, TEXT, Layout, targets_asked
from loss_layouts import (
    LENGTH,
    ROWS,
    Net,
    Options,
    gathered,
    inputs_and_targets,
    mask_multiplied,
    padded,
    step_of,
    two_heads,
)
from steps import VOCABULARY, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.data import Alignment
from lossleuth.probes.data.padding import padding
from lossleuth.tape.roles.alignment import alignment
from lossleuth.tape.roles.loss_roles import best_roles
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.roles.supervised_rows import is_supervised, row_weights
from lossleuth.tape.window import Window


def each(layouts: tuple[Layout, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("layout", layouts, ids=lambda f: f.__name__)


def aligned(window: Window) -> Alignment:
    found = alignment(window, best_roles(window))
    assert found.untested is None
    return found


@each(FAULTS["offset 0"].layouts)
def test_the_next_token_is_found_in_every_layout(layout: Layout) -> None:
    found = aligned(step_of(layout))
    assert found.offset == 1 and found.shares[1] == 1.0


@each(LAYOUTS)
def test_the_targets_that_count_are_found_in_every_layout(layout: Layout) -> None:
    assert aligned(step_of(layout)).supervised == targets_asked(layout)


@each(FAULTS["masks labels"].layouts)
def test_no_target_counts_where_all_labels_are_masked(layout: Layout) -> None:
    assert aligned(step_of(layout, FAULTS["masks labels"].options)).supervised == 0


@each(NO_NEXT)
def test_targets_that_are_no_next_tokens_are_not_taken_for_some(layout: Layout) -> None:
    assert aligned(step_of(layout)).offset in (0, None)


@pytest.mark.parametrize("offset", [0, 2])
@each(FAULTS["offset 0"].layouts)
def test_a_wrong_offset_is_found_in_every_layout(layout: Layout, offset: int) -> None:
    found = aligned(step_of(layout, Options(offset=offset)))
    # A second head predicts one token more: one of the two is right, or both are further ahead.
    expected = {0: 1, 2: 3}[offset] if layout is two_heads else offset
    assert found.offset == expected


@each(PADDED)
def test_targets_behind_the_end_of_a_padded_text_do_not_hide_an_offset(layout: Layout) -> None:
    assert aligned(step_of(layout, Options(offset=2))).shares[2] == 1.0


@pytest.mark.parametrize("counts", [False, True])
@each(PADDED)
def test_padding_counts_by_its_weight_however_it_is_masked(layout: Layout, counts: bool) -> None:
    window = step_of(layout, Options(pads_count=counts))
    found = padding(window, find_roles(window))
    assert found.untested is None and found.token == 0
    assert (found.supervised_pads > 0) == counts
    assert found.supervised == (ROWS * LENGTH if counts else TEXT)


@pytest.mark.parametrize("sure", [20.0, 30.0, 80.0])
@pytest.mark.parametrize("counts", [False, True])
def test_padding_that_is_predicted_well_counts_by_its_weight_too(sure: float, counts: bool) -> None:
    """At 20 a hundred-millionth is left to learn, at 80 not even float64 has a digit of it."""

    def learnt(net: Net, o: Options) -> Tensor:
        x, y, is_text = padded(o)
        scores = (
            net.head(net.features(x))
            + sure * F.one_hot(torch.where(is_text, -1, y) + 1, 30)[..., 1:]
        )
        losses = F.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="none")
        weights = torch.ones_like(losses) if o.pads_count else is_text.flatten().float()
        return (losses * weights).sum() / weights.sum()

    window = step_of(learnt, Options(pads_count=counts))
    found = padding(window, find_roles(window))
    assert found.supervised == (ROWS * LENGTH if counts or sure > 40 else TEXT)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_log_probabilities_that_were_changed_are_no_rows_of_scores(sign: float) -> None:
    """Those of padding are made 0, or all change their sign, and the last position is left out."""

    def changed(net: Net, o: Options) -> Tensor:
        x, y, text = padded(o)
        chances = sign * net.head(net.features(x)).log_softmax(-1)
        chances = chances.masked_fill(~text[..., None], 0.0) if sign > 0 else chances
        return -sign * chances[:, :-1].gather(2, y[:, :-1, None]).sum() / text.sum()

    window = step_of(changed)
    found = padding(window, find_roles(window))
    assert found.untested is not None


@each((mask_multiplied, gathered, fused))
def test_weights_are_the_derivative_by_each_rows_own_loss(layout: Layout) -> None:
    window = step_of(layout)
    roles = find_roles(window)
    assert roles is not None
    weights = row_weights(window, roles)
    assert weights is not None
    assert sorted({round(float(w) * TEXT, 9) for w in weights}) == [0.0, 1.0]
    assert int((weights != 0).sum()) == TEXT


def test_rows_of_a_loss_that_is_multiplied_by_nothing_do_not_count() -> None:
    def masked_out(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        each = F.cross_entropy(net.head(net.features(x)).transpose(1, 2), y, reduction="none")
        return (each * torch.zeros_like(each)).sum()

    window = step_of(masked_out)
    assert aligned(window).supervised == 0


def test_labels_outside_the_vocabulary_do_not_count() -> None:
    labels = torch.tensor([3, -100, 7, 2, -1])
    assert is_supervised(labels, None, 5).tolist() == [True, False, False, True, False]
    assert is_supervised(labels, 3, None).tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("distils", [False, True])
def test_labels_beside_a_teacher_alone_are_not_without_weight(*, distils: bool) -> None:
    """Pure distillation keeps its cross-entropy in the sum, times 0."""

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1])
        target = (scores * 2).detach().softmax(-1)
        taught = F.kl_div(scores.log_softmax(-1), target, reduction="batchmean")
        plain = F.cross_entropy(scores.view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        return 0.0 * plain + (taught if distils else 0.0 * taught)

    found = aligned(recorded_step(loss))
    assert (found.supervised, found.targets) == (24 if distils else 0, 24)
