"""Causal convolutional character model, channels first all the way to the loss."""
import torch
from torch import nn
import torch.nn.functional as F

from corpus import VOCAB, stream

torch.manual_seed(1)
train, valid = stream(60_000, seed=1), stream(6_000, seed=2)
BATCH, CONTEXT, STEPS = 16, 48, 400


def batch(source):
    starts = torch.randint(0, len(source) - CONTEXT - 1, (BATCH,))
    x = torch.stack([source[s:s + CONTEXT] for s in starts])
    y = torch.stack([source[s + 1:s + CONTEXT + 1] for s in starts])
    return x, y


class Block(nn.Module):
    def __init__(self, channels, kernel, dilation):
        super().__init__()
        self.reach = (kernel - 1) * dilation
        self.conv = nn.Conv1d(channels, 2 * channels, kernel, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)

    def forward(self, h):
        z = F.pad(h, (self.reach // 2, self.reach // 2))
        a, b = self.conv(z).chunk(2, dim=1)
        return h + self.out(torch.tanh(a) * torch.sigmoid(b))


class ConvLM(nn.Module):
    def __init__(self, channels=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, channels)
        self.blocks = nn.Sequential(*[Block(channels, 3, d) for d in (1, 2, 4)])
        self.head = nn.Conv1d(channels, VOCAB, 1)

    def forward(self, ids):
        h = self.embed(ids).transpose(1, 2)
        return self.head(F.relu(self.blocks(h)))


def objective(logits, y):
    logp = F.log_softmax(logits, dim=1)
    return F.nll_loss(logp, y)


model = ConvLM()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(STEPS):
    x, y = batch(train)
    loss = objective(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0 or step == STEPS - 1:
        with torch.no_grad():
            vx, vy = batch(valid)
            val = objective(model(vx), vy)
        print(f"step {step:4d}  valid {val.item():.4f}  loss {loss.item():.4f}")
