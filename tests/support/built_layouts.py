"""Recorded steps of small models with torch's own recurrences, masked tokens, labels, fused losses.

They go on where `loss_layouts` ends; `every_layout` has both.
"""

from __future__ import annotations

from typing import Any

import torch
from loss_layouts import (
    CLASSES,
    LENGTH,
    PAD,
    Net,
    Options,
    inputs_and_targets,
    labels,
    padded,
    texts,
)
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

IGNORED = -100
# Texts that ask for one thing each: fewer are too few to tell an offset by.
MANY = 12
MASK = CLASSES - 1
SORTS = 3


def everything() -> Tensor:
    """A mask with which all positions see each other."""
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool)


# One answer for each text.
# Windows of one corpus, which is there before a step: what is asked for is not in the window.
CORPUS = texts(MANY)


def last_position_only(net: Net, o: Options) -> Tensor:
    x, y = CORPUS[:, :LENGTH], labels(CORPUS[:, LENGTH - 1 + o.offset], o)
    return F.cross_entropy(net.head(net.features(x)[:, -1]), y)


def text_classifier(net: Net, o: Options) -> Tensor:
    """Texts are sorted by their first token; every position sees all."""
    x = texts(MANY)[:, :LENGTH]
    y = labels(x[:, 0] % SORTS, o)
    return F.cross_entropy(net.sorts(net.features(x, everything()).mean(1)), y)


# Tokens that are hidden.


def masked_language_model(net: Net, o: Options) -> Tensor:
    """Every third token is hidden, at another place in each text, and is asked for."""
    y = texts(MANY)[:, :LENGTH] % MASK
    hidden = (torch.arange(LENGTH) + torch.arange(MANY)[:, None]) % 3 == 0
    x = y.masked_fill(hidden, MASK)
    y = y.masked_fill(torch.ones_like(hidden) if o.masks_labels else ~hidden, IGNORED)
    places = net.places(torch.arange(LENGTH))
    h = net.mixed(net.embedded(x) + places, everything())
    return F.cross_entropy(net.head(h).flatten(0, 1), y.flatten())


# Recurrences of torch.


def recurrent(net: Net, h_TBC: Tensor) -> Tensor:
    """A recurrence over the first axis, with the faults that there may be."""
    out: Tensor = net.gru(h_TBC)[0]
    out = out + out[-1:] if net.options.sees_future else out
    return out + 0.5 * out.mean(1, keepdim=True) if net.options.mixes_rows else out


def gru_time_first(net: Net, o: Options) -> Tensor:
    x, y = (t.t().contiguous() for t in inputs_and_targets(o))
    return F.cross_entropy(net.head(recurrent(net, net.embedded(x))).flatten(0, 1), y.flatten())


def gru_batch_first(net: Net, o: Options) -> Tensor:
    x, y = inputs_and_targets(o)
    h = recurrent(net, net.embedded(x).transpose(0, 1)).transpose(0, 1)
    return F.cross_entropy(net.head(h).flatten(0, 1), y.flatten())


def packed_states(net: Net, o: Options, x: Tensor, is_text: Tensor) -> Tensor:
    """What an LSTM makes of texts without their padding."""
    lengths = is_text.sum(1)
    rows = pack_padded_sequence(net.embedded(x), lengths, batch_first=True)
    h: Tensor = pad_packed_sequence(net.lstm(rows)[0], batch_first=True, total_length=LENGTH)[0]
    h = h + h.sum(1, keepdim=True) if o.sees_future else h
    return h + 0.5 * h.mean(0, keepdim=True) if o.mixes_rows else h


def packed_lstm(net: Net, o: Options) -> Tensor:
    """Sequences are packed for the recurrence, and padding is ignored in the loss."""
    x, y, is_text = padded(o)
    h = packed_states(net, o, x, y != PAD)
    y = y if o.pads_count else y.masked_fill(~is_text, IGNORED)
    return F.cross_entropy(net.head(h).flatten(0, 1), y.flatten())


def packed_targets(net: Net, o: Options) -> Tensor:
    """The loss too is taken of packed sequences: the first rows of all texts, then the second."""
    x, y, is_text = padded(o)
    is_there = y != PAD
    h = packed_states(net, o, x, is_there)
    y = y if o.pads_count else y.masked_fill(~is_text, IGNORED)
    lengths = torch.full((len(x),), LENGTH) if o.pads_count else is_there.sum(1)
    scores, wanted = (
        pack_padded_sequence(t, lengths, batch_first=True).data for t in (net.head(h), y)
    )
    return F.cross_entropy(scores, wanted)


def packed_throughout(net: Net, o: Options) -> Tensor:
    """Nothing is ever unpacked: head and loss take the rows as the recurrence returns them."""
    x, y, is_text = padded(o)
    lengths = (y != PAD).sum(1)
    rows = pack_padded_sequence(net.embedded(x), lengths, batch_first=True)
    h_NC = (net.both if o.sees_future else net.lstm)(rows)[0].data
    # The first rows are those of the first tokens of all texts.
    h_NC = h_NC + 0.5 * h_NC[: len(x)].mean(0) if o.mixes_rows else h_NC
    y = y.masked_fill(~is_text, IGNORED)
    wanted = pack_padded_sequence(y, lengths, batch_first=True).data
    return F.cross_entropy(net.head(h_NC), wanted)


# Logits that are never there.


class FusedLoss(torch.autograd.Function):
    """Takes features to a loss, a few classes at a time, and leaves padding out by itself."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, table: Tensor, y: Tensor, ignored: int) -> Tensor:
        total, picked = torch.zeros(len(h)), torch.zeros(len(h))
        for start in range(0, len(table), 8):
            tile = h @ table[start : start + 8].t()
            total += tile.exp().sum(-1)
            here = (y >= start) & (y < start + tile.shape[1])
            picked[here] = tile[here, y[here] - start]
        ctx.save_for_backward(h, table, y)
        ctx.ignored = ignored
        counts = (y != ignored).float()
        return ((total.log() - picked) * counts).sum() / counts.sum().clamp(min=1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        h, table, y = ctx.saved_tensors
        counts = (y != ctx.ignored).float()
        error = (h @ table.t()).softmax(-1) - F.one_hot(y.clamp(min=0), len(table))
        error = gradient * error * counts[:, None] / counts.sum().clamp(min=1)
        return error @ table, error.t() @ h, None, None


def fused(net: Net, o: Options) -> Tensor:
    x, y, _ = padded(o)
    # Padding is known to the function alone, by the number of its token.
    ignored = IGNORED if o.pads_count else PAD
    y = y.masked_fill(y != PAD, PAD) if o.masks_labels else y
    h = net.features(x).flatten(0, 1)
    return FusedLoss.apply(h, net.head.weight, y.flatten(), ignored)  # type: ignore[no-any-return]  # a tensor


# Two inputs.


def encoder_decoder(net: Net, o: Options) -> Tensor:
    """An encoder that sees its whole input, which every position of the decoder reads."""
    x, y = inputs_and_targets(o)
    source = net.other(texts()[:, 1 : LENGTH + 1] * 7 % CLASSES)
    encoded = F.scaled_dot_product_attention(source, source, source, attn_mask=everything())
    h = net.features(x) + 0.1 * encoded.mean(1, keepdim=True)
    return F.cross_entropy(net.head(h).flatten(0, 1), y.flatten())
