"""Small language models whose steps are thousands of operations, as users write them.

python bench/_long_tapes.py NAME [STEPS]
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 96


class Block(nn.Module):
    """A pre-norm transformer block with its attention written out."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        b, t, c = x.shape
        split = (b, t, self.heads, c // self.heads)
        q, k, v = (y.view(split).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))

    def feed(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class CharacterGRU(nn.Module):
    """A cell called once per character."""

    width, length, rows = 128, 256, 16

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(self.width, self.width)

    def forward(self, x):
        state, seen = x.new_zeros(len(x), self.width), []
        for t in range(x.size(1)):
            state = self.cell(x[:, t], state)
            seen.append(state)
        return torch.stack(seen, 1)


class GatedByHand(nn.Module):
    """Two layers of an LSTM, every gate written out."""

    width, length, rows = 96, 192, 16

    def __init__(self):
        super().__init__()
        gates = ("input", "forget", "cell", "output")
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {g + s: nn.Linear(self.width, self.width) for g in gates for s in ("_x", "_h")}
            )
            for _ in range(2)
        )

    def forward(self, x):
        states = [[x.new_zeros(len(x), self.width)] * 2 for _ in self.layers]
        seen = []
        for t in range(x.size(1)):
            here = x[:, t]
            for layer, state in zip(self.layers, states, strict=True):
                h, c = state
                i = torch.sigmoid(layer["input_x"](here) + layer["input_h"](h))
                f = torch.sigmoid(layer["forget_x"](here) + layer["forget_h"](h))
                g = torch.tanh(layer["cell_x"](here) + layer["cell_h"](h))
                o = torch.sigmoid(layer["output_x"](here) + layer["output_h"](h))
                c = f * c + i * g
                here = o * torch.tanh(c)
                state[:] = here, c
            seen.append(here)
        return torch.stack(seen, 1)


class RecurrentMemory(nn.Module):
    """Segments of a text one after another, with memory tokens handed on."""

    width, length, rows = 96, 256, 8
    segment, memory = 32, 8

    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(0.02 * torch.randn(1, self.memory, self.width))
        self.blocks = nn.ModuleList(Block(self.width, 4) for _ in range(4))

    def forward(self, x):
        memory, seen = self.start.expand(len(x), -1, -1), []
        for part in x.split(self.segment, 1):
            h = torch.cat([memory, part, self.start.expand(len(x), -1, -1)], 1)
            for block in self.blocks:
                h = block(h)
            seen.append(h[:, self.memory : -self.memory])
            memory = h[:, -self.memory :]
        return torch.cat(seen, 1)


class ReversibleFunction(torch.autograd.Function):
    """Two halves that are computed back from their results, so that none is kept."""

    @staticmethod
    def forward(ctx, a, b, block, *weights):
        with torch.no_grad():
            c = a + block.attention(block.norm1(b))
            d = b + block.feed(block.norm2(c))
        ctx.block, ctx.weights = block, weights
        ctx.save_for_backward(c, d)
        return c, d

    @staticmethod
    def backward(ctx, grad_c, grad_d):
        c, d = ctx.saved_tensors
        block, weights = ctx.block, ctx.weights
        with torch.enable_grad():
            c = c.detach().requires_grad_()
            fed = block.feed(block.norm2(c))
        found = torch.autograd.grad(fed, (c, *weights), grad_d, allow_unused=True)
        grad_c = grad_c + found[0]
        slopes = list(found[1:])
        with torch.enable_grad():
            b = (d - fed).detach().requires_grad_()
            mixed = block.attention(block.norm1(b))
        found = torch.autograd.grad(mixed, (b, *weights), grad_c, allow_unused=True)
        for i, slope in enumerate(found[1:]):
            if slope is not None:
                slopes[i] = slope if slopes[i] is None else slopes[i] + slope
        return grad_c, grad_d + found[0], None, *slopes


class Reversible(nn.Module):
    width, length, rows = 96, 128, 8

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(self.width, 4) for _ in range(6))

    def forward(self, x):
        a = b = x
        for block in self.blocks:
            a, b = ReversibleFunction.apply(a, b, block, *block.parameters())
        return a + b


class SelectiveScan(nn.Module):
    """A state-space model whose scan is a loop in Python."""

    width, length, rows = 64, 256, 8
    states, layers = 8, 3

    def __init__(self):
        super().__init__()
        self.mixers = nn.ModuleList(nn.Linear(self.width, self.width) for _ in range(self.layers))
        self.rates = nn.ModuleList(nn.Linear(self.width, self.width) for _ in range(self.layers))
        self.ins = nn.ModuleList(nn.Linear(self.width, self.states) for _ in range(self.layers))
        self.outs = nn.ModuleList(nn.Linear(self.width, self.states) for _ in range(self.layers))
        self.decay = nn.Parameter(torch.rand(self.layers, self.width, self.states))

    def forward(self, x):
        for i in range(self.layers):
            h = F.rms_norm(x, (self.width,))
            rate = F.softplus(self.rates[i](h))
            keep = torch.exp(-rate.unsqueeze(-1) * self.decay[i].exp())
            take = (rate * h).unsqueeze(-1) * self.ins[i](h).unsqueeze(2)
            read = self.outs[i](h).unsqueeze(2)
            state, seen = x.new_zeros(len(x), self.width, self.states), []
            for t in zip(keep.unbind(1), take.unbind(1), read.unbind(1), strict=True):
                state = t[0] * state + t[1]
                seen.append((state * t[2]).sum(-1))
            x = x + self.mixers[i](torch.stack(seen, 1))
        return x


class LongScan(SelectiveScan):
    """The same over more steps and layers: more than 20 000 operations."""

    width, length, rows = 32, 640, 4
    layers = 8


class ThinBytes(nn.Module):
    """Twelve thin layers over bytes."""

    width, length, rows = 64, 128, 8
    layers = 12

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(self.width, 4) for _ in range(self.layers))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Experts(nn.Module):
    """Each of many experts is asked for its own tokens in a loop."""

    width, length, rows = 64, 96, 8
    experts, layers = 16, 4

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(self.width, 4) for _ in range(self.layers))
        self.routers = nn.ModuleList(nn.Linear(self.width, self.experts) for _ in self.blocks)
        self.fed = nn.ModuleList(
            nn.ModuleList(
                nn.Sequential(
                    nn.Linear(self.width, self.width), nn.ReLU(), nn.Linear(self.width, self.width)
                )
                for _ in range(self.experts)
            )
            for _ in self.blocks
        )

    def forward(self, x):
        for block, router, experts in zip(self.blocks, self.routers, self.fed, strict=True):
            x = x + block.attention(block.norm1(x))
            flat = block.norm2(x).flatten(0, 1)
            share, chosen = router(flat).softmax(-1).topk(2, -1)
            out = torch.zeros_like(flat)
            for number, expert in enumerate(experts):
                row, place = (chosen == number).nonzero(as_tuple=True)
                out.index_add_(0, row, share[row, place, None] * expert(flat[row]))
            x = x + out.view_as(x)
        return x


class Buffered(nn.Module):
    """Running means that are written into a buffer position by position."""

    width, length, rows = 64, 192, 8

    def __init__(self):
        super().__init__()
        self.mix = nn.ModuleList(nn.Linear(self.width, self.width) for _ in range(3))

    def forward(self, x):
        for layer in self.mix:
            seen = torch.zeros_like(x)
            mean = x[:, 0]
            for t in range(x.size(1)):
                mean = 0.9 * mean + 0.1 * x[:, t]
                seen[:, t] = mean
            x = x + torch.tanh(layer(seen))
        return x


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        share = torch.sigmoid(x)
        return slope * share * (1 + x * (1 - share))


class Rounded(torch.autograd.Function):
    """Straight through: rounding that passes gradients on."""

    @staticmethod
    def forward(ctx, weight):
        size = weight.abs().mean()
        return torch.round(weight / size).clamp(-1, 1) * size

    @staticmethod
    def backward(ctx, slope):
        return slope


class OwnActivation(nn.Module):
    """A recurrence with a custom function at every position."""

    width, length, rows = 96, 192, 8

    def __init__(self):
        super().__init__()
        self.mix, self.hold = nn.Linear(self.width, self.width), nn.Linear(self.width, self.width)

    def forward(self, x):
        state, seen = torch.zeros_like(x[:, 0]), []
        for here in self.mix(x).unbind(1):
            state = Swish.apply(here + 0.5 * self.hold(state))
            seen.append(state)
        return torch.stack(seen, 1)


class Quantised(nn.Module):
    """Every matrix is rounded to three values before it is used."""

    width, length, rows = 64, 64, 4

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(self.width, self.width, bias=False) for _ in range(24)
        )

    def forward(self, x):
        for layer in self.layers:
            h = F.rms_norm(x, (self.width,))
            x = x + F.linear(torch.relu(h), Rounded.apply(layer.weight))
        return x


class Model(nn.Module):
    """A body between an embedding and a head."""

    def __init__(self, kind):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, kind.width)
        self.places = nn.Embedding(kind.length, kind.width)
        self.body = kind()
        self.head = nn.Linear(kind.width, VOCABULARY)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1)))
        return self.head(self.body(x))


def loss_of(model, chunk):
    logits = model(chunk[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())


def plain(model, optimizer, chunks):
    optimizer.zero_grad()
    loss = loss_of(model, chunks[0])
    loss.backward()
    optimizer.step()
    return loss


def accumulated(model, optimizer, chunks):
    """Sixteen micro-batches for one update."""
    optimizer.zero_grad()
    total = 0.0
    for chunk in chunks:
        loss = loss_of(model, chunk) / len(chunks)
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total


def unrolled(model, optimizer, chunks):
    """Learn a start from which a few inner steps of plain descent lead far."""
    weights = dict(model.named_parameters())
    inner = dict(weights)
    for chunk in chunks[:-1]:
        loss = loss_with(model, inner, chunk)
        slopes = torch.autograd.grad(loss, list(inner.values()), create_graph=True)
        inner = {n: w - 0.01 * s for (n, w), s in zip(inner.items(), slopes, strict=True)}
    loss = loss_with(model, inner, chunks[-1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def loss_with(model, weights, chunk):
    logits = torch.func.functional_call(model, weights, (chunk[:, :-1],))
    return F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())


def penalised(model, optimizer, chunks):
    """Double backward: the size of the gradient is part of the loss."""
    loss = loss_of(model, chunks[0])
    slopes = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    optimizer.zero_grad()
    (loss + 0.01 * sum(slope.square().sum() for slope in slopes)).backward()
    optimizer.step()
    return loss


def position_by_position(model, optimizer, chunks):
    """Logits and a loss for each position, added up in the loop."""
    (chunk,), body = chunks, model.body
    x = model.tokens(chunk[:, :-1])
    state, loss = torch.zeros_like(x[:, 0]), 0.0
    for t in range(x.size(1)):
        state = body.cell(x[:, t], state)
        loss = loss + F.cross_entropy(model.head(state), chunk[:, t + 1])
    return finished(optimizer, loss / x.size(1))


def stacked_heads(model, optimizer, chunks):
    """Logits for each position in the loop, one loss of all."""
    (chunk,), body = chunks, model.body
    x = model.tokens(chunk[:, :-1])
    state, logits = torch.zeros_like(x[:, 0]), []
    for t in range(x.size(1)):
        state = body.cell(x[:, t], state)
        logits.append(model.head(state))
    loss = F.cross_entropy(torch.stack(logits, 1).flatten(0, 1), chunk[:, 1:].flatten())
    return finished(optimizer, loss)


def finished(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def sampled(model, optimizer, chunks):
    """Each step is followed by a text that the model goes on with."""
    loss = plain(model, optimizer, chunks)
    text = chunks[0][:1, :1]
    with torch.no_grad():
        for _ in range(64):
            shares = model(text[:, -32:])[:, -1].softmax(-1)
            text = torch.cat([text, torch.multinomial(shares, 1)], 1)
    return loss


def validated(model, optimizer, chunks):
    """Each step is followed by an evaluation of many batches, with its accuracy."""
    loss = plain(model, optimizer, chunks)
    total = right = 0.0
    with torch.no_grad():
        for chunk in chunks[1:]:
            logits = model(chunk[:, :-1])
            targets = chunk[:, 1:]
            total += F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
            right += (logits.argmax(-1) == targets).double().mean().item()
    return loss


class ShortCell(CharacterGRU):
    length, rows = 128, 8


class ThinAndFew(ThinBytes):
    rows, layers = 2, 4


# The model, what a step is, and how many batches it takes.
PROGRAMS = {
    "character_gru": (CharacterGRU, plain, 1),
    "lstm_by_hand": (GatedByHand, plain, 1),
    "recurrent_memory": (RecurrentMemory, plain, 1),
    "reversible": (Reversible, plain, 1),
    "selective_scan": (SelectiveScan, plain, 1),
    "long_scan": (LongScan, plain, 1),
    "thin_bytes": (ThinBytes, plain, 1),
    "many_experts": (Experts, plain, 1),
    "buffered": (Buffered, plain, 1),
    "own_activation": (OwnActivation, plain, 1),
    "quantised": (Quantised, plain, 1),
    "loss_per_position": (ShortCell, position_by_position, 1),
    "head_per_position": (ShortCell, stacked_heads, 1),
    "sampled": (ThinAndFew, sampled, 1),
    "validated": (ThinAndFew, validated, 24),
    "accumulated": (ThinAndFew, accumulated, 16),
    "unrolled": (ThinAndFew, unrolled, 4),
    "double_backward": (ThinAndFew, penalised, 1),
}


def main(name, steps=7):
    torch.manual_seed(0)
    kind, step, count = PROGRAMS[name]
    model = Model(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randint(1, 4, (64, kind.length + 1)).cumsum(1) % VOCABULARY
    for _ in range(int(steps)):
        chunks = [data[torch.randint(0, len(data), (kind.rows,))] for _ in range(count)]
        print(step(model, optimizer, chunks).item())


if __name__ == "__main__":
    main(*sys.argv[1:])
