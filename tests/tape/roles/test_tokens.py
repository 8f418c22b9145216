"""The tokens that are looked up on the way to the logits."""

from __future__ import annotations

import torch
from loss_layouts import (
    CLASSES,
    LENGTH,
    ROWS,
    Net,
    Options,
    inputs_and_targets,
    loop_stacked,
    one_hot_inputs,
    step_of,
    with_token_types,
)
from torch import Tensor
from torch.nn import functional as F

from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.roles.tokens import find_tokens, tokens_behind, tokens_of, values_of
from lossleuth.tape.window import Window

INPUTS = inputs_and_targets(Options())[0]


def tokens(window: Window) -> tuple[Tensor, int]:
    """The values that are found, and how many operations take them."""
    roles = find_roles(window)
    assert roles is not None and roles.logits is not None
    found = find_tokens(window.tape, [roles.logits], [ROWS * LENGTH], CLASSES)
    assert found is not None and found.count == ROWS * LENGTH
    values = values_of(window.tape, found)
    assert values is not None
    return values, len(found.used)


def test_a_loop_takes_its_tokens_from_one_tensor() -> None:
    values, used = tokens(step_of(loop_stacked))
    assert values.tolist() == INPUTS.tolist() and used == LENGTH


def test_one_hot_rows_are_a_lookup() -> None:
    values, used = tokens(step_of(one_hot_inputs))
    assert values.squeeze(-1).tolist() == INPUTS.tolist() and used == 1


def test_a_lookup_of_one_number_everywhere_is_not_the_text() -> None:
    values, _ = tokens(step_of(with_token_types))
    assert values.tolist() == INPUTS.tolist()


def test_what_the_model_chose_itself_is_no_input() -> None:
    def routed(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        h = net.features(x)
        h = h + net.other(net.second(h).argmax(-1))
        return F.cross_entropy(net.head(h).flatten(0, 1), y.flatten())

    values, _ = tokens(step_of(routed))
    assert values.tolist() == INPUTS.tolist()


def test_logits_without_a_lookup_have_no_tokens() -> None:
    def constant(net: Net, o: Options) -> Tensor:
        _, y = inputs_and_targets(o)
        h = net.mix.weight[:1, :].expand(ROWS * LENGTH, -1)
        return F.cross_entropy(net.head(h), y.flatten())

    window = step_of(constant)
    roles = find_roles(window)
    assert roles is not None and roles.tokens is None and roles.scores is not None
    assert tokens_of(window.tape, roles.scores, CLASSES) is None
    assert tokens_behind(window.tape, roles.scores, CLASSES) is None


def counting(starts: Tensor) -> Window:
    """Rows that count up, and nothing else that is looked up."""
    # Made before the step, so that nothing tells them from positions but what they are.
    x = (torch.arange(LENGTH) + starts) % CLASSES

    def loss(net: Net, o: Options) -> Tensor:
        return F.cross_entropy(net.head(net.table(x)).flatten(0, 1), (x + 1).flatten() % CLASSES)

    return step_of(loss)


def test_texts_that_count_up_from_anywhere_are_tokens_and_positions_are_none() -> None:
    starts = torch.tensor([[3], [0], [9], [5]])
    assert tokens(counting(starts))[0].tolist() == (torch.arange(LENGTH) + starts).tolist()
    window = counting(torch.zeros(ROWS, 1, dtype=torch.long))
    roles = find_roles(window)
    assert roles is not None and roles.tokens is None
