"""The token position of each row of a loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from built_layouts import MANY, last_position_only, packed_throughout
from loss_layouts import (
    LENGTH,
    ROWS,
    Net,
    Options,
    channel_first,
    chosen_features,
    chosen_rows,
    chunked,
    inputs_and_targets,
    loop_of_losses,
    padded,
    step_of,
)
from steps import VOCABULARY, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.roles import find_roles, token_values
from lossleuth.tape.roles.row_places import class_axis, row_places
from lossleuth.tape.window import Window

EVERY = list(range(ROWS * LENGTH))


def places(window: Window) -> list[int]:
    roles = find_roles(window)
    assert roles is not None
    tokens = token_values(window.tape, roles)
    assert tokens is not None
    return row_places(window, roles, tokens).tolist()  # type: ignore[no-any-return]  # numbers


def test_channel_first_logits_have_their_rows_in_order() -> None:
    window = step_of(channel_first)
    roles = find_roles(window)
    assert roles is not None and class_axis(window, roles) == 1
    assert places(window) == EVERY


@pytest.mark.parametrize("layout", [chosen_rows, chosen_features])
def test_chosen_rows_are_where_they_were_chosen(layout: Callable[[Net, Options], Tensor]) -> None:
    text = padded(Options())[2].reshape(-1)
    assert places(step_of(layout)) == torch.nonzero(text).reshape(-1).tolist()


def test_chunks_follow_each_other() -> None:
    assert places(step_of(chunked)) == EVERY


def test_turns_of_a_loop_are_positions() -> None:
    found = places(step_of(loop_of_losses))
    assert found == [row * LENGTH + turn for turn in range(LENGTH) for row in range(ROWS)]


def test_one_row_for_each_text_stands_at_its_end() -> None:
    ends = [(row + 1) * LENGTH - 1 for row in range(MANY)]
    assert places(step_of(last_position_only)) == ends

    def pooled(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        return F.cross_entropy(net.head(net.features(x).mean(1)), y[:, 0])

    assert places(step_of(pooled)) == ends[:ROWS]


def test_rows_of_packed_sequences_are_those_of_their_text() -> None:
    lengths = [6, 5, 4, 3]
    expected = [
        row * LENGTH + turn for turn in range(6) for row in range(ROWS) if turn < lengths[row]
    ]
    assert places(step_of(packed_throughout)) == expected


@pytest.mark.parametrize("lengths", [[8, 8, 8, 8], [3, 8, 5, 8]], ids=["full", "unsorted"])
def test_packed_sequences_may_be_full_or_unsorted(lengths: list[int]) -> None:
    def packs(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        h = net.embedded(x).transpose(0, 1)
        wanted = pack_padded_sequence(y.t(), lengths, enforce_sorted=False)  # type: ignore[arg-type]  # a list
        out = net.gru(pack_padded_sequence(h, lengths, enforce_sorted=False))[0]  # type: ignore[arg-type]  # a list
        return F.cross_entropy(net.head(out.data), wanted.data)

    order = sorted(range(ROWS), key=lambda row: -lengths[row])
    found = places(step_of(packs))
    expected = [(row, t) for t in range(LENGTH) for row in order if t < lengths[row]]
    assert sorted(found) == sorted(row * LENGTH + t for row, t in expected)
    assert [place % LENGTH for place in found] == [t for _, t in expected]


def test_sequences_that_are_packed_for_an_encoder_place_no_rows_of_the_decoder() -> None:
    def translates(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        full = torch.full((ROWS,), LENGTH)
        source = pack_padded_sequence(net.other(x.flip(1)), full, batch_first=True)
        h = net.features(x) + net.lstm(source)[1][0][0].unsqueeze(1)
        return F.cross_entropy(net.head(h).flatten(0, 1), y.flatten())

    assert places(step_of(translates)) == EVERY


def test_as_many_classes_as_positions_are_told_apart() -> None:
    def square(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        logits_BVT = net.head(net.features(x))[..., :LENGTH].transpose(1, 2)
        return F.cross_entropy(logits_BVT * 1.0, y % LENGTH)

    window = step_of(square)
    roles = find_roles(window)
    assert roles is not None and class_axis(window, roles) == 1


def test_rows_that_belong_to_no_position_are_named() -> None:
    def pairs(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        h = net.features(x)
        return F.cross_entropy(net.head(h[:, 1:] + h[:, :-1]).flatten(0, 1), y[:, 1:].flatten())

    with pytest.raises(CannotReplay, match="one row of logits for each token"):
        places(step_of(pairs))


@pytest.mark.parametrize("ahead", [2, 3])
def test_a_head_that_predicts_ahead_stands_right_before_its_targets(ahead: int) -> None:
    """Tokens are looked up beyond those that there are logits for."""
    tokens = torch.randint(VOCABULARY, (3, 9))

    def loss(model: nn.Module, _: Tensor) -> Tensor:
        length = tokens.shape[1] - ahead
        h = model.get_submodule("tokens")(tokens)
        h = h[:, :length] + h[:, ahead - 1 : ahead - 1 + length]
        scores = model.get_submodule("head")(h)
        return F.cross_entropy(scores.flatten(0, 1), tokens[:, ahead:].flatten())

    window = recorded_step(loss)
    roles = find_roles(window)
    assert roles is not None
    places = row_places(window, roles, tokens).reshape(3, -1)
    wanted = torch.arange(ahead - 1, 8) + 9 * torch.arange(3)[:, None]
    assert torch.equal(places, wanted)


def test_rows_that_neither_tokens_nor_targets_tell_of_have_no_place() -> None:
    tokens, targets = torch.randint(VOCABULARY, (3, 9)), torch.randint(VOCABULARY, (3, 7))

    def loss(model: nn.Module, _: Tensor) -> Tensor:
        h = model.get_submodule("tokens")(tokens)
        scores = model.get_submodule("head")(h[:, :7] + h[:, 2:])
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    window = recorded_step(loss)
    roles = find_roles(window)
    assert roles is not None
    with pytest.raises(CannotReplay, match="not one row of logits"):
        row_places(window, roles, tokens)
