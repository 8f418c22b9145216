# Bytes in patches: a wide causal model over patches of 4 bytes, and a narrow one that spells out each patch.
import argparse
import math
import os

import torch
import torch.nn as nn

HERE = os.path.dirname(os.path.abspath(__file__))


def causal(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), 1)


def layer(width, heads):
    return nn.TransformerEncoderLayer(width, heads, 3 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)


class Stack(nn.Module):
    def __init__(self, width, heads, depth, length):
        super().__init__()
        self.where = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList([layer(width, heads) for _ in range(depth)])
        self.register_buffer("mask", causal(length))

    def forward(self, x):
        x = x + self.where
        for l in self.layers:
            x = l(x, src_mask=self.mask)
        return x


class PatchModel(nn.Module):
    """logits[:, i] is the guess for ids[:, i], made from ids[:, :i]"""

    def __init__(self, patch, patches, wide, narrow):
        super().__init__()
        self.patch, self.patches, self.narrow = patch, patches, narrow
        self.emb = nn.Embedding(128, narrow)
        self.start = nn.Parameter(0.02 * torch.randn(wide))
        self.begin = nn.Parameter(0.02 * torch.randn(narrow))
        self.gather = nn.Linear(patch * narrow, wide)
        self.outer = Stack(wide, 4, 2, patches)
        self.spread = nn.Linear(wide, patch * narrow)
        self.inner = Stack(narrow, 2, 1, patch)
        self.norm = nn.LayerNorm(narrow)
        self.head = nn.Linear(narrow, 128)
        nn.init.normal_(self.emb.weight, std=0.2)

    def forward(self, ids):
        b = ids.shape[0]
        e = self.emb(ids)                                                      # b, patches * patch, narrow
        whole = self.gather(e.view(b, self.patches, -1))
        whole = torch.cat([self.start.expand(b, 1, -1), whole[:, :-1]], 1)     # patch n sees patches < n
        ctx = self.spread(self.outer(whole)).view(b * self.patches, self.patch, self.narrow)
        e = e.view(b * self.patches, self.patch, self.narrow)
        e = torch.cat([self.begin.expand(len(e), 1, -1), e[:, :-1]], 1)        # byte i sees bytes < i of its patch
        return self.head(self.norm(self.inner(ctx + e))).view(b, -1, 128)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default=os.path.join(HERE, "village.bin"))
    ap.add_argument("--steps", type=int, default=700)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--patch", type=int, default=4)
    ap.add_argument("--patches", type=int, default=12)
    a = ap.parse_args()

    torch.manual_seed(1)
    data = torch.frombuffer(bytearray(open(a.data, "rb").read()), dtype=torch.uint8).long()
    model = PatchModel(a.patch, a.patches, wide=64, narrow=32)
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.01)
    size = a.patch * a.patches
    warm = 40
    for step in range(a.steps):
        rate = (step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / (a.steps - warm)))
        opt.param_groups[0]["lr"] = a.lr * rate
        at = torch.randint(len(data) - size - 1, (a.batch, 1))
        window = data[at + torch.arange(size + 1)]
        x, y = window[:, :-1], window[:, 1:]
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.reshape(-1, 128), y.reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 70 == 0 or step + 1 == a.steps:
            print(f"{step:5d}  nats per byte {loss.item():.3f}")
    return model


if __name__ == "__main__":
    model = main()
