import statistics

import torch
import torch.nn as nn
import torch.nn.functional as F

import babble

"""How much does the result depend on the seed? Three short runs."""

STREAM = torch.from_numpy(babble.token_stream(50_000, 180))
TEST = torch.from_numpy(babble.token_stream(6_000, 181))
V, T, B, STEPS = len(babble.VOCAB), 24, 24, 240


def build(seed):
    torch.manual_seed(seed)
    return nn.ModuleDict({"emb": nn.Embedding(V, 56), "rnn": nn.LSTM(56, 72, batch_first=True), "out": nn.Linear(72, V)})


def scores(m, x):
    return m["out"](m["rnn"](m["emb"](x))[0])


def crop(source, n):
    i = torch.randint(len(source) - T - 1, (n, 1)) + torch.arange(T + 1)
    return source[i][:, :-1], source[i][:, 1:]


def rate(step):
    """warm up for 20 steps, then fall linearly to a tenth"""
    return 6e-3 * min(1.0, (step + 1) / 20) * max(0.0, 1 - 0.9 * step / STEPS)


@torch.no_grad()
def test_loss(m):
    x, y = crop(TEST, 100)
    return F.cross_entropy(scores(m, x).flatten(0, 1), y.flatten()).item()


results = []
step, optimizer = 0, None
for seed in (11, 22, 33):
    model = build(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        x, y = crop(STREAM, B)
        loss = F.cross_entropy(scores(model, x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        model.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 60 == 0:
            print(f"seed {seed} step {step} train loss {loss.item():.4f}")
    results.append(test_loss(model))
    print(f"seed {seed} test {results[-1]:.4f}")
print("test mean", round(statistics.mean(results), 4), "spread", round(statistics.pstdev(results), 4))
