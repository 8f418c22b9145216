"""Where a leak comes in."""

from __future__ import annotations

import torch
from steps import VOCABULARY, SmallModel, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.model.changed_tokens import ChangedTokens, changed_tokens
from lossleuth.probes.model.leak_lines import (
    batch_leak_place,
    comes_through_a_code,
    future_leak_place,
    lost_input_place,
    lost_past_place,
)
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


def step_of(window: Window) -> ChangedTokens:
    roles = find_roles(window)
    assert roles is not None
    return changed_tokens(window, roles)


def looks_ahead(h: Tensor) -> Tensor:
    h = h * 2
    h = h + h.roll(-1, dims=1)
    return h / 3


def mixes(h: Tensor) -> Tensor:
    h = h * 2
    h = h + h.mean(0, keepdim=True)
    return h / 3


def forgets(h: Tensor) -> Tensor:
    blank = torch.zeros_like(h)
    h = h * blank
    return h + blank + 1


def place(function: object, line: int) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno + line}"  # type: ignore[attr-defined]  # a function


def planted(between: object) -> Window:
    def plant(model: SmallModel) -> None:
        model.between = between  # type: ignore[assignment]  # a function of tensors

    return recorded_step(change=plant)


def test_a_sound_model_has_no_such_place() -> None:
    window = recorded_step()
    assert future_leak_place(step_of(window)) is None
    assert batch_leak_place(step_of(window)) is None


def test_the_line_that_looks_ahead_is_found() -> None:
    window = planted(looks_ahead)
    assert future_leak_place(step_of(window)) == place(looks_ahead, 2)
    assert batch_leak_place(step_of(window)) is None


def test_the_line_that_mixes_rows_is_found() -> None:
    window = planted(mixes)
    assert batch_leak_place(step_of(window)) == place(mixes, 2)
    assert future_leak_place(step_of(window)) is None


def test_attention_without_its_mask_is_found_where_it_is_called() -> None:
    def plant(model: SmallModel) -> None:
        model.causal = False

    window = recorded_step(change=plant)
    found = future_leak_place(step_of(window))
    assert found is not None
    file, _, line = found.rpartition(":")
    assert file.endswith("steps.py")
    code = SmallModel.forward.__code__
    assert int(line) == code.co_firstlineno + 3


def test_the_line_where_the_input_is_lost_is_found() -> None:
    window = planted(forgets)
    assert lost_input_place(step_of(window)) == place(forgets, 2)


def test_where_nothing_is_lost_the_last_product_is_named_and_nobody_asks() -> None:
    window = planted(mixes)
    found = lost_input_place(step_of(window))
    assert found is not None
    assert "steps.py" in found


def alone(model: nn.Module, tokens: Tensor) -> Tensor:
    h = model.get_submodule("tokens")(tokens[:, :-1])
    past = h.cumsum(1)
    past = past * torch.zeros(())
    scores = model.get_submodule("head")(h + past)
    return F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


def test_the_line_where_the_past_is_lost_is_found() -> None:
    assert lost_past_place(step_of(recorded_step(alone))) == place(alone, 3)


def each_by_itself(model: nn.Module, tokens: Tensor) -> Tensor:
    h = model.get_submodule("up")(model.get_submodule("tokens")(tokens[:, :-1]))
    scores = model.get_submodule("head")(model.get_submodule("down")(h))
    return F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


def test_where_nothing_mixes_positions_no_line_is_named() -> None:
    assert lost_past_place(step_of(recorded_step(each_by_itself))) is None


def of_whole_text(h: Tensor) -> Tensor:
    code = h.mean(1)
    return h + code[:, None]


def padded_and_cut_too_early(h: Tensor) -> Tensor:
    """A convolution over time, padded on both sides, sees one position ahead."""
    wide = F.pad(h, (0, 0, 2, 2))
    moved = wide[:, 2:] + wide[:, :-2]
    return moved[:, 1 : 1 + h.shape[1]]


def test_a_code_of_the_whole_text_is_told_from_a_look_ahead() -> None:
    assert comes_through_a_code(step_of(planted(of_whole_text)))
    for between in (padded_and_cut_too_early, looks_ahead):
        assert future_leak_place(step_of(planted(between))) is not None
        assert not comes_through_a_code(step_of(planted(between)))


def test_a_code_of_texts_that_end_in_padding_is_still_a_code() -> None:
    tokens = torch.randint(1, VOCABULARY, (4, 15))
    tokens[:, 9:] = 0

    def loss(model: nn.Module, _: Tensor) -> Tensor:
        h = model.get_submodule("tokens")(tokens[:, :-1])
        real = (tokens[:, :-1] != 0)[..., None]
        code = (h * real).sum(1) / real.sum(1)
        scores = model.get_submodule("head")(h + code[:, None])
        targets = tokens[:, 1:].masked_fill(tokens[:, 1:] == 0, -100)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    assert comes_through_a_code(step_of(recorded_step(loss)))
