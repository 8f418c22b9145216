"""What logits depend on."""

from __future__ import annotations

import pytest
import torch
from steps import VOCABULARY, WIDTH, SmallModel, batch, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.model import Leaks
from lossleuth.probes.model.leaks import leaks
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


def leaks_of(window: Window) -> Leaks:
    return leaks(window, find_roles(window))


def test_a_sound_model_leaks_exactly_nothing() -> None:
    found = leaks_of(recorded_step())
    assert found.untested is None
    assert (found.future, found.batch) == (0, 0)
    assert found.own is not None
    assert found.own > 0.1
    assert found.order is not None
    assert found.order > 1e-3


def test_a_missing_mask_lets_the_future_in() -> None:
    def plant(model: SmallModel) -> None:
        model.causal = False

    found = leaks_of(recorded_step(change=plant))
    assert found.future is not None
    assert found.future > 1e-3
    assert found.batch == 0


def test_rows_that_mix_are_a_batch_leak() -> None:
    def plant(model: SmallModel) -> None:
        model.mixes_rows = True

    found = leaks_of(recorded_step(change=plant))
    assert found.batch is not None
    assert found.batch > 1e-3
    assert found.future == 0


def test_a_model_that_ignores_its_input_shows_it() -> None:
    def plant(model: SmallModel) -> None:
        model.between = lambda h: torch.zeros_like(h) + h.mean() * 0

    found = leaks_of(recorded_step(change=plant))
    assert found.own == 0


def test_without_tokens_nothing_is_claimed() -> None:
    def regression(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.mse_loss(model(tokens[:, :-1]), torch.zeros(3, 8, 23))

    found = leaks_of(recorded_step(regression))
    assert found.untested is not None
    assert found.future is None


def hidden(model: nn.Module, tokens: Tensor) -> Tensor:
    head, model.head = model.head, nn.Identity()
    try:
        return model(tokens)  # type: ignore[no-any-return]  # a tensor
    finally:
        model.head = head


def chosen_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Logits of the second half only, as of a text that begins with a question."""
    logits = model.head(hidden(model, tokens[:, :-1])[:, 4:])  # type: ignore[operator]  # a module
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 5:].flatten())


def test_a_leak_is_seen_where_logits_are_made_of_some_positions_only() -> None:
    sound = leaks_of(recorded_step(chosen_loss))
    assert sound.untested is None
    assert (sound.future, sound.batch) == (0.0, 0.0)
    open_ = leaks_of(recorded_step(chosen_loss, lambda m: setattr(m, "causal", False)))
    assert open_.future is not None and open_.future > 1e-3


def prefix_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Every position sees the first four, and those are not asked for."""
    x = tokens[:, :-1]
    h = model.tokens(x) + model.positions(torch.arange(8))  # type: ignore[operator]  # modules
    allowed = torch.ones(8, 8).tril().bool()
    allowed[:, :4] = True
    h = h + F.scaled_dot_product_attention(h, h, h, attn_mask=allowed)
    logits = model.head(h)  # type: ignore[operator]  # a module
    return F.cross_entropy(logits[:, 3:].flatten(0, 1), tokens[:, 4:].flatten())


def test_a_prefix_may_see_itself() -> None:
    found = leaks_of(recorded_step(prefix_loss))
    assert found.untested is None
    assert found.future == 0.0
    assert found.own is not None and found.own > 1e-3


def test_a_model_that_is_asked_for_hidden_tokens_may_see_all_others() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        asked = torch.zeros_like(tokens).bool()
        asked[:, 2::3] = True
        return F.cross_entropy(model(tokens.masked_fill(asked, 0))[asked], tokens[asked])

    found = leaks_of(recorded_step(loss, lambda m: setattr(m, "causal", False)))
    assert found.untested is None
    assert found.future is None
    assert found.own is not None and found.own > 1e-3


class TimeFirst(nn.Module):
    """A recurrent model whose texts are columns."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.cell = nn.RNNCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.mixes = False

    def forward(self, x: Tensor) -> Tensor:
        state, out = torch.zeros(x.shape[1], WIDTH), []
        for row in self.tokens(x):
            state = self.cell(row, state)
            out.append(state + state.mean(0) if self.mixes else state)
        return self.head(torch.stack(out))  # type: ignore[no-any-return]  # a tensor


@pytest.mark.parametrize("mixes", [False, True])
def test_texts_may_be_columns(mixes: bool) -> None:
    torch.manual_seed(0)
    model = TimeFirst()
    model.mixes = mixes
    recorder = Recorder(1)
    recorder.start()
    try:
        x = batch().t().contiguous()
        loss = F.cross_entropy(model(x[:-1]).flatten(0, 1), x[1:].flatten())
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
    finally:
        recorder.stop()
    found = leaks_of(recorder.window)
    assert found.untested is None
    assert found.future == 0.0
    assert found.batch is not None
    assert (found.batch > 1e-3) == mixes
