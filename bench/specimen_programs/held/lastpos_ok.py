from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn

import babble


@dataclass
class Config:
    block: int = 16
    dim: int = 48
    heads: int = 4
    layers: int = 2
    lr: float = 1.5e-3
    batch: int = 64
    max_iters: int = 450


class LastTokenTransformer(nn.Module):
    """Encoder over the window; the final position alone is projected to the vocabulary."""

    def __init__(self, cfg, n_vocab):
        super().__init__()
        self.wte = nn.Embedding(n_vocab, cfg.dim)
        self.wpe = nn.Parameter(torch.randn(1, cfg.block, cfg.dim) * 0.02)
        layer = nn.TransformerEncoderLayer(cfg.dim, cfg.heads, 2 * cfg.dim, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.out = nn.Linear(cfg.dim, n_vocab)

    def forward(self, idx):
        h = self.wte(idx) + self.wpe
        h = self.body(h)
        return self.out(h[:, -1])


def sample(data, cfg, rng):
    at = rng.integers(0, len(data) - cfg.block - 1, size=cfg.batch)
    x = np.stack([data[a:a + cfg.block] for a in at])
    y = data[at + cfg.block]
    return torch.from_numpy(x), torch.from_numpy(y)


def train(cfg):
    torch.manual_seed(1337)
    rng = np.random.default_rng(1337)
    data = babble.token_stream(50_000, 12)
    model = LastTokenTransformer(cfg, len(babble.VOCAB))
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    loss_fn = nn.CrossEntropyLoss()
    model.train()
    for i in range(cfg.max_iters):
        xb, yb = sample(data, cfg, rng)
        pred = model(xb)
        assert pred.shape == (cfg.batch, len(babble.VOCAB))
        loss = loss_fn(pred, yb)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if i % 50 == 49:
            print(f"{i + 1}/{cfg.max_iters} loss: {loss.item():.4f}")
    return model


if __name__ == "__main__":
    model = train(Config())
