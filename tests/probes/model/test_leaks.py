"""What logits depend on."""

from __future__ import annotations

import pytest
import torch
from every_layout import FAULTS, LAYOUTS, NO_FUTURE, SINGLE, Layout
from loss_layouts import CLASSES, Net, Options, inputs_and_targets, padded, step_of
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
    assert found.spread is not None and found.spread > 0
    assert found.own is not None
    assert found.own > 0.1
    assert found.later is not None
    assert found.later > 1e-3


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


def test_how_many_earlier_positions_are_moved_is_counted() -> None:
    assert leaks_of(recorded_step()).future_share == 0.0

    def plant(model: SmallModel) -> None:
        model.between = lambda h: h + h.mean(1, keepdim=True)

    assert leaks_of(recorded_step(change=plant)).future_share == 1.0

    def one_sees(model: SmallModel) -> None:
        model.between = lambda h: torch.cat([h[:, :1] + h.mean(1, keepdim=True), h[:, 1:]], 1)

    share = leaks_of(recorded_step(change=one_sees)).future_share
    assert share is not None and 0 < share < 0.5


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
    # What may be seen is for the judge to say, who knows what is asked for.
    assert found.future is not None and found.future > 1e-3
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


def each(layouts: tuple[Layout, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("layout", layouts, ids=lambda f: f.__name__)


@each(LAYOUTS)
def test_sound_models_are_quiet_in_every_layout(layout: Layout) -> None:
    found = leaks_of(step_of(layout))
    assert found.untested is None
    assert not found.batch and (layout in NO_FUTURE or found.future == 0.0)
    assert max(found.own or 0.0, found.whole or 0.0) > 0.1
    assert found.reach is not None and found.reach > 0 and found.length == 8


@each(FAULTS["sees future"].layouts)
def test_a_future_is_seen_in_every_layout(layout: Layout) -> None:
    found = leaks_of(step_of(layout, Options(sees_future=True)))
    assert found.future is not None and found.future > 1e-3
    assert not found.batch
    assert found.future_harm is not None


@each(FAULTS["mixes texts"].layouts)
def test_texts_that_mix_are_seen_in_every_layout(layout: Layout) -> None:
    found = leaks_of(step_of(layout, Options(mixes_rows=True)))
    assert found.batch is not None and found.batch > 1e-3 and found.batch_harm is not None
    # An average of two predictions is never worse than they are on average.
    assert found.batch_noise is not None and found.batch_noise >= 0
    assert layout in NO_FUTURE or found.future == 0.0


@each(SINGLE)
def test_a_single_text_has_no_others_to_mix_with(layout: Layout) -> None:
    assert leaks_of(step_of(layout, Options(mixes_rows=True))).batch is None


@each(LAYOUTS)
def test_an_input_that_is_ignored_is_seen_in_every_layout(layout: Layout) -> None:
    if layout.__name__ == "with_token_types":
        # What is left of the input is a constant.
        pytest.skip("the other lookup still reaches the logits")
    found = leaks_of(step_of(layout, Options(ignores_input=True)))
    assert found.own == 0.0 and not found.later and found.reach is None


@pytest.mark.parametrize("mixes", [False, True])
def test_windows_that_follow_each_other_are_texts_of_their_own(mixes: bool) -> None:
    """Down its last column a batch of windows is a text as well."""

    def windows(net: Net, o: Options) -> Tensor:
        text = torch.randint(CLASSES, (40,), generator=torch.Generator().manual_seed(2))
        h = net.embedded(text[:-1].unfold(0, 4, 1)).flatten(1)
        h = h + 0.5 * h.mean(0, keepdim=True) if o.mixes_rows else h
        scores = h @ net.mix.weight.repeat(1, 4)[:CLASSES].t()
        return F.cross_entropy(scores, text[4:])

    found = leaks_of(step_of(windows, Options(mixes_rows=mixes)))
    assert found.untested is None and found.batch is not None
    assert (found.batch > 1e-3) == mixes


@pytest.mark.parametrize("lowest", [float("-inf"), torch.finfo(torch.float32).min, -1e9])
def test_classes_that_are_masked_hide_no_move(lowest: float) -> None:
    def masked(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        kept = y.clamp(max=CLASSES - 4)
        z = net.head(net.features(x))
        z = z.masked_fill(torch.arange(CLASSES) > CLASSES - 4, lowest)
        return F.cross_entropy(z.flatten(0, 1), kept.flatten())

    found = leaks_of(step_of(masked))
    assert found.own is not None and found.own > 0.01
    assert (found.future, found.batch) == (0.0, 0.0)


def test_texts_that_neither_content_nor_effect_tells_apart_are_not_known() -> None:
    def labels(net: Net, o: Options) -> Tensor:
        x, _ = inputs_and_targets(o)
        other = torch.randint(CLASSES, (x.numel(),), generator=torch.Generator().manual_seed(2))
        return F.cross_entropy(net.head(net.features(x)).flatten(0, 1), other)

    assert leaks_of(step_of(labels)).texts_known
    mixed = leaks_of(step_of(labels, Options(mixes_rows=True)))
    assert mixed.batch is not None and mixed.batch > 1e-3 and not mixed.texts_known


@pytest.mark.parametrize("offset", [0, 2])
def test_columns_of_text_are_known_by_effect_where_targets_do_not_tell(offset: int) -> None:
    for layout in LAYOUTS[:4]:
        found = leaks_of(step_of(layout, Options(offset=offset)))
        assert (found.future, found.batch) == (0.0, 0.0), layout.__name__


def test_a_leak_through_the_largest_of_a_batch_is_seen_whichever_row_holds_it() -> None:
    for row in range(3):

        def plant(model: SmallModel, row: int = row) -> None:
            # One row is far larger than the others, which see nothing but the maximum.
            scale = torch.ones(3, 1, 1)
            scale[row] = 30.0
            model.between = lambda h: h / (h * scale).abs().amax((0, 2), keepdim=True)

        found = leaks_of(recorded_step(change=plant))
        assert found.batch is not None and found.batch > 1e-6


def test_the_harm_of_a_leak_is_what_its_loss_would_be_without() -> None:
    def copies(model: nn.Module, tokens: Tensor) -> Tensor:
        # Each position reads the next token itself: without it, nothing is known.
        table = 10 * torch.eye(VOCABULARY) + 0 * model.head.weight.sum()  # type: ignore[union-attr]  # a module
        logits = F.embedding(tokens[:, :-1], table).roll(-1, 1)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:-1].flatten())

    found = leaks_of(recorded_step(copies))
    assert found.future_harm == pytest.approx(10.0, abs=1.0)


def test_tokens_that_no_way_leads_from_are_an_input_that_is_ignored() -> None:
    def lost(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        h = net.table(x)
        # The embedding is overwritten: only positions go on.
        h = net.other(torch.arange(x.shape[1])).expand(h.shape)
        return F.cross_entropy(net.head(net.mixed(h)).flatten(0, 1), y.flatten())

    found = leaks_of(step_of(lost))
    assert found.untested is None and (found.own, found.later) == (0.0, 0.0)


def test_a_model_without_tokens_ignores_none() -> None:
    def from_numbers(net: Net, o: Options) -> Tensor:
        _, y = inputs_and_targets(o)
        h = torch.randn(*y.shape, net.head.in_features)
        # The table is in use elsewhere, so that nothing is lost.
        extra = 0.1 * net.table(y).square().mean()
        return F.cross_entropy(net.head(net.mixed(h)).flatten(0, 1), y.flatten()) + extra

    assert leaks_of(step_of(from_numbers)).untested is not None


def test_a_text_whose_end_is_padding_is_not_ignored() -> None:
    def pooled(net: Net, o: Options) -> Tensor:
        x, _, _ = padded(o)
        kept = (x != 0).float().unsqueeze(-1)
        h = (net.embedded(x) * kept).sum(1) / kept.sum(1)
        return F.cross_entropy(net.head(h), torch.tensor([0, 1, 0, 1]))

    found = leaks_of(step_of(pooled))
    # Its prediction stands at the last position, whose token is masked.
    assert found.own == 0.0 and found.whole is not None and found.whole > 0.1
    lost = leaks_of(step_of(pooled, Options(ignores_input=True)))
    assert lost.whole == 0.0


class Switch(nn.Module):
    """Experts whose tokens are sorted, split by counts that Python reads, and put back."""

    def __init__(self, puts_back: bool) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.puts_back = puts_back

    def forward(self, h: Tensor) -> Tensor:
        flat = h.reshape(-1, WIDTH)
        pick = self.router(flat).argmax(-1)
        order = pick.argsort(stable=True)
        counts = torch.bincount(pick, minlength=3).tolist()
        groups = flat[order].split(counts)
        done = torch.cat([e(g) for e, g in zip(self.experts, groups, strict=True)])
        if not self.puts_back:
            return done[order].view_as(h)
        out = torch.empty_like(done)
        out[order] = done
        return out.view_as(h)


@pytest.mark.parametrize("puts_back", [True, False])
def test_routing_that_python_reads_is_no_leak_and_a_wrong_order_is(puts_back: bool) -> None:
    torch.manual_seed(1)
    experts = Switch(puts_back)

    def plant(model: SmallModel) -> None:
        model.experts = experts
        model.between = lambda h: h + experts(h)

    found = leaks_of(recorded_step(change=plant))
    assert found.untested is None
    assert found.batch is not None and (found.batch > 1e-3) is not puts_back


@pytest.mark.parametrize("mixes", [False, True])
def test_texts_that_are_looked_up_in_another_order_leak_only_where_they_mix(mixes: bool) -> None:
    order = torch.tensor([2, 0, 3, 1])

    def sorted_by_length(net: Net, o: Options) -> Tensor:
        x, y = inputs_and_targets(o)
        h = net.features(x[order])[order.argsort()]
        return F.cross_entropy(net.head(h).flatten(0, 1), y.flatten())

    found = leaks_of(step_of(sorted_by_length, Options(mixes_rows=mixes)))
    assert found.batch is not None
    assert (found.batch > 1e-3) is mixes
    assert mixes or found.future == 0


def test_a_window_of_which_only_the_last_token_counts_reaches_nowhere() -> None:
    torch.manual_seed(0)
    windows, targets = torch.randint(1, 29, (8, 5)), torch.randint(1, 29, (8,))

    def of_last(net: Net, o: Options) -> Tensor:
        seen = net.table(windows) * torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]).unsqueeze(-1)
        return F.cross_entropy(net.head(seen.sum(1)), targets)

    found = leaks_of(step_of(of_last))
    assert (found.reach, found.length) == (0, 5)
