"""Recorded steps of small models whose losses, logits and tokens are laid out in many ways.

`every_layout` has them all, and the faults that are planted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.window import Window

ROWS, LENGTH, CLASSES, WIDTH = 4, 8, 29, 12
PAD = 0

Forward = Callable[["Net", Tensor], Tensor]


@dataclass
class Options:
    """What is wrong with a program, if anything."""

    offset: int = 1
    sees_future: bool = False
    mixes_rows: bool = False
    ignores_input: bool = False
    pads_count: bool = False
    masks_labels: bool = False


class Net(nn.Module):
    """Embeddings, one mixing of positions, and two heads."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.table = nn.Embedding(CLASSES, WIDTH)
        self.other = nn.Embedding(CLASSES, WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.second = nn.Linear(WIDTH, CLASSES)
        self.sorts = nn.Linear(WIDTH, 3)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.both = nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)

    def embedded(self, x: Tensor) -> Tensor:
        h: Tensor = self.table(x)
        return 0.0 * h + self.head.weight[:1].mean(0) if self.options.ignores_input else h

    def features(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Of tokens (B, T): causal unless told otherwise."""
        return self.mixed(self.embedded(x), allowed)

    def mixed(self, h: Tensor, allowed: Tensor | None = None) -> Tensor:
        q, k, v = self.mix(h).chunk(3, -1)
        if allowed is None:
            allowed = torch.ones(h.shape[1], h.shape[1], dtype=torch.bool)
            allowed = allowed if self.options.sees_future else allowed.tril()
        h = h + F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return h + 0.5 * h.mean(0, keepdim=True) if self.options.mixes_rows else h


def texts(rows: int = ROWS) -> Tensor:
    """Rows of tokens that do not repeat within a row; 0 does not occur."""
    generator = torch.Generator().manual_seed(5)
    made = [1 + torch.randperm(CLASSES - 1, generator=generator) for _ in range(rows)]
    return torch.stack(made)[:, : LENGTH + 3]


def sliced(options: Options, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    whole = texts(rows)
    return whole[:, :LENGTH], whole[:, options.offset : LENGTH + options.offset]


def labels(y: Tensor, options: Options) -> Tensor:
    """Targets, all of which are ignored if that is what is wrong."""
    return torch.full_like(y, -100) if options.masks_labels else y


def inputs_and_targets(options: Options, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    x, y = sliced(options, rows)
    return x, labels(y, options)


def padded(options: Options) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs and targets whose rows end in padding, and the mask of targets that count."""
    x, y = (t.clone() for t in sliced(options))
    for row in range(ROWS):
        length = LENGTH - 1 - row
        x[row, length:], y[row, length - 1 :] = PAD, PAD
    return x, y, (y != PAD) & (not options.masks_labels)


# Where classes and time are.


def channel_first(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    logits_BVT = F.conv1d(
        net.features(x).transpose(1, 2), net.head.weight.unsqueeze(-1), net.head.bias
    )
    return F.cross_entropy(logits_BVT, y)


def transposed_for_the_loss(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    return F.cross_entropy(net.head(net.features(x)).transpose(1, 2), y)


def time_first(net: Net, o: Options) -> Tensor:
    x, y = (t.t().contiguous() for t in inputs_and_targets(o))
    h = net.mixed(net.embedded(x).transpose(0, 1)).transpose(0, 1)
    return F.cross_entropy(net.head(h).reshape(-1, CLASSES), y.reshape(-1))


def logits_time_first(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    logits_TBV = net.head(net.features(x).transpose(0, 1).contiguous())
    return F.cross_entropy(logits_TBV.reshape(-1, CLASSES), y.t().reshape(-1))


def one_text(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    return F.cross_entropy(net.head(net.features(x[:1]))[0], y[0])


def flat_tokens(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    h = net.mixed(net.embedded(x[0]).unsqueeze(0))
    return F.cross_entropy(net.head(h[0]), y[0])


# How the loss is written.


def mask_multiplied(net: Net, o: Options) -> Tensor:
    x, y, text = padded(o)
    each = F.cross_entropy(net.head(net.features(x)).transpose(1, 2), y, reduction="none")
    mask = torch.ones_like(each) if o.pads_count else text.float()
    return (each * mask).sum() / mask.sum().clamp(min=1)


def gathered(net: Net, o: Options) -> Tensor:
    x, y, text = padded(o)
    logs = F.log_softmax(net.head(net.features(x)), -1)
    each = -logs.gather(-1, y.unsqueeze(-1)).squeeze(-1)
    mask = torch.ones_like(each) if o.pads_count else text.float()
    return (each * mask).sum() / mask.sum().clamp(min=1)


def chosen_rows(net: Net, o: Options) -> Tensor:
    x, y, text = padded(o)
    text = torch.ones_like(text) if o.pads_count else text
    return F.cross_entropy(net.head(net.features(x))[text], y[text])


def chosen_features(net: Net, o: Options) -> Tensor:
    x, y, text = padded(o)
    text = torch.ones_like(text) if o.pads_count else text
    return F.cross_entropy(net.head(net.features(x)[text]), y[text])


def chosen_features_time_first(net: Net, o: Options) -> Tensor:
    """As a recurrence of torch computes them, whatever comes first outside."""
    x, y, text = padded(o)
    text = torch.ones_like(text) if o.pads_count else text
    h_TBC = (1.0 * net.features(x).transpose(0, 1)).contiguous()
    return F.cross_entropy(net.head(h_TBC.transpose(0, 1)[text]), y[text])


def ignored_label(net: Net, o: Options) -> Tensor:
    x, y, text = padded(o)
    y = y if o.pads_count else y.masked_fill(~text, -100)
    return F.cross_entropy(net.head(net.features(x)).view(-1, CLASSES), y.view(-1))


def one_hot_product(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    logs = F.log_softmax(net.head(net.features(x)), -1)
    return -(F.one_hot(y, CLASSES).float() * logs).sum(-1).mean()


def softmax_by_hand(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    z = net.head(net.features(x)).view(-1, CLASSES)
    powers = (z - z.max(-1, keepdim=True).values).exp()
    p = powers / powers.sum(-1, keepdim=True)
    return -p[torch.arange(len(p)), y.reshape(-1)].log().mean()


def picked_minus_logsumexp(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    z = net.head(net.features(x)).view(-1, CLASSES)
    return (z.logsumexp(-1) - z[torch.arange(len(z)), y.reshape(-1)]).mean()


def smoothed(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    z = net.head(net.features(x)).view(-1, CLASSES)
    return F.cross_entropy(z, y.reshape(-1), label_smoothing=0.1)


def chunked(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    h = net.features(x).reshape(-1, WIDTH)
    total = torch.zeros(())
    for part, wanted in zip(h.split(7), y.reshape(-1).split(7), strict=True):
        total = total + F.cross_entropy(net.head(part), wanted, reduction="sum")
    return total / y.numel()


def binary(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    z = net.head(net.features(x))
    return F.binary_cross_entropy_with_logits(z, F.one_hot(y, CLASSES).float())


def two_heads(net: Net, o: Options) -> Tensor:
    whole, h = texts(), net.features(texts()[:, :LENGTH])
    first = labels(whole[:, o.offset : LENGTH + o.offset], o)
    second = labels(whole[:, o.offset + 1 : LENGTH + o.offset + 1], o)
    one = F.cross_entropy(net.head(h).flatten(0, 1), first.flatten())
    return one + 0.5 * F.cross_entropy(net.second(h).flatten(0, 1), second.flatten())


def left_out_after_softmax(net: Net, o: Options) -> Tensor:
    """The last position has a row of log-probabilities, and nothing to be compared with."""
    x, y = inputs_and_targets(o)
    chances = net.head(net.features(x)).log_softmax(-1)[:, :-1]
    return -chances.gather(2, y[:, :-1, None]).mean()


def of_a_class_of_words(net: Net, o: Options) -> Tensor:
    """The word given its class, of which there are ten: the others are masked, by the target."""
    x, y = inputs_and_targets(o)
    other = torch.arange(CLASSES) % 10 != (y % 10)[..., None]
    scores = net.head(net.features(x)).masked_fill(other, float("-inf"))
    return -scores.log_softmax(-1).gather(2, y[..., None]).mean()


def left_out_in_turns(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    chances = net.head(net.features(x)).log_softmax(-1)
    losses = [-chances[:, t].gather(1, y[:, t, None]).mean() for t in range(LENGTH)]
    return torch.stack(losses).mean()


def left_out_in_late_turns(net: Net, o: Options) -> Tensor:
    """The first positions are left out, and the others come last first."""
    x, y = inputs_and_targets(o)
    z = net.head(net.features(x))
    losses = [F.cross_entropy(z[:, t], y[:, t]) for t in reversed(range(2, LENGTH))]
    return torch.stack(losses).mean()


# Loops over time.


def cells(net: Net, x: Tensor) -> list[Tensor]:
    state, states = torch.zeros(len(x), WIDTH), []
    for step in range(x.shape[1]):
        state = net.cell(net.embedded(x[:, step]), state)
        state = state + 0.5 * state.mean(0, keepdim=True) if net.options.mixes_rows else state
        states.append(state)
    if net.options.sees_future:
        states = [state + states[-1] for state in states]
    return states


def loop_stacked(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    return F.cross_entropy(net.head(torch.stack(cells(net, x), 1)).flatten(0, 1), y.flatten())


def loop_of_losses(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    losses = [F.cross_entropy(net.head(h), y[:, t]) for t, h in enumerate(cells(net, x))]
    return torch.stack(losses).mean()


def segments(net: Net, o: Options) -> Tensor:
    """A recurrent memory: a loss for each half of the texts, the first one's state cut off."""
    x, y = inputs_and_targets(o)
    half, state, losses = LENGTH // 2, torch.zeros(ROWS, 1, WIDTH), []
    whole = net.features(x) if o.sees_future else None
    for at in (0, half):
        h = net.features(x[:, at : at + half]) + state
        state = h[:, -1:].detach()
        h = h if whole is None else h + whole.mean(1, keepdim=True)
        losses.append(
            F.cross_entropy(net.head(h).reshape(-1, CLASSES), y[:, at : at + half].reshape(-1))
        )
    return torch.stack(losses).mean()


# Which positions see which.


def packed(net: Net, o: Options) -> Tensor:
    """Two documents in each row do not see each other, nor ask for each other's tokens."""
    x, y = inputs_and_targets(o)
    document = torch.arange(LENGTH) >= LENGTH // 2
    same = document[:, None] == document[None, :]
    allowed = same if o.sees_future else same.tril()
    y = y.clone()
    y[:, [LENGTH // 2 - 1, LENGTH - 1]] = -100
    return F.cross_entropy(net.head(net.features(x, allowed)).flatten(0, 1), y.flatten())


def prefix_language_model(net: Net, o: Options) -> Tensor:
    """The first half sees itself as a whole and is not asked for anything."""
    x, y = inputs_and_targets(o)
    half = LENGTH // 2
    allowed = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    if not o.sees_future:
        allowed = allowed.tril()
        allowed[:half, :half] = True
    y = y.clone()
    y[:, : half - 1] = -100
    return F.cross_entropy(net.head(net.features(x, allowed)).flatten(0, 1), y.flatten())


# What goes in.


def one_hot_inputs(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    h = F.one_hot(x, CLASSES).float() @ net.table.weight
    h = 0.0 * h + net.head.weight[:1].mean(0) if o.ignores_input else h
    return F.cross_entropy(net.head(net.mixed(h)).flatten(0, 1), y.flatten())


def with_token_types(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    # As an old release of a well-known model does: types are looked up in the tokens' table.
    h = net.embedded(x) + net.table(torch.zeros_like(x))
    return F.cross_entropy(net.head(net.mixed(h)).flatten(0, 1), y.flatten())


def step_of(
    loss_of: Callable[[Net, Options], Tensor], options: Options | None = None, after: int = 0
) -> Window:
    """Record one step, after so many steps of training."""
    options = options or Options()
    torch.manual_seed(3)
    net = Net(options)
    adam = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(after):
        adam.zero_grad()
        loss_of(net, options).backward()
        adam.step()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    recorder = Recorder(0)
    recorder.start()
    try:
        loss = loss_of(net, options)
        optimizer.zero_grad()
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
    finally:
        recorder.stop()
    return recorder.window
