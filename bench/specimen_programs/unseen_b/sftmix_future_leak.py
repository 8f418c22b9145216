"""Instruction tuning of a tiny prefix LM on facts_train.jsonl.

The prompt is read in both directions, the response is written left to right; only the response counts in the loss.
"""
import json
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

IGNORE = -100


@dataclass
class Config:
    d_model: int = 64
    heads: int = 4
    layers: int = 2
    max_len: int = 64
    batch: int = 24
    lr: float = 2e-3
    epochs: int = 5
    clip: float = 1.0
    seed: int = 3


class Tokenizer:
    def __init__(self, rows):
        words = sorted({w for r in rows for w in (r["instruction"] + " " + r["response"]).split()})
        self.itos = ["<pad>", "<ask>", "<answer>", "<end>"] + words
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, s):
        return [self.stoi[w] for w in s.split()]

    def prompt(self, row):
        return self.encode("<ask> " + row["instruction"] + " <answer>")

    def response(self, row):
        return self.encode(row["response"] + " <end>")


class Collator:
    def __init__(self, tok):
        self.tok = tok

    def __call__(self, rows):
        pairs = [(self.tok.prompt(r), self.tok.response(r)) for r in rows]
        longest = max(len(p) + len(a) for p, a in pairs)
        longest += -longest % 16         # shapes repeat, kernels are reused
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        labels = torch.full((len(rows), longest), IGNORE)
        for i, (p, a) in enumerate(pairs):
            n = len(p) + len(a)
            ids[i, :n] = torch.tensor(p + a)
            labels[i, len(p):n] = torch.tensor(a)
        # the prompt is whatever is not answered
        return {"ids": ids, "labels": labels, "prefix": (labels == IGNORE).sum(1)}


class PrefixLM(nn.Module):
    def __init__(self, cfg, vocab):
        super().__init__()
        self.heads = cfg.heads
        self.tok = nn.Embedding(vocab, cfg.d_model)
        self.pos = nn.Embedding(cfg.max_len, cfg.d_model)
        for e in (self.tok, self.pos):
            nn.init.normal_(e.weight, std=0.1)
        layer = nn.TransformerEncoderLayer(cfg.d_model, cfg.heads, 4 * cfg.d_model, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, cfg.layers, norm=nn.LayerNorm(cfg.d_model), enable_nested_tensor=False)
        self.head = nn.Linear(cfg.d_model, vocab)

    def forward(self, ids, prefix):
        B, T = ids.shape
        i = torch.arange(T)
        # key j is seen from position i if it is not later, or if it belongs to the prompt
        seen = (i[None, :] <= i[:, None])[None] | (i[None, None, :] < prefix[:, None, None])
        mask = (~seen).repeat_interleave(self.heads, 0)
        x = self.tok(ids) + self.pos(i)
        return self.head(self.body(x, mask=mask))


def response_loss(model, batch):
    logp = model(batch["ids"], batch["prefix"]).log_softmax(-1)[:, :-1]
    labels = batch["labels"][:, 1:]
    weight = (labels != IGNORE).float()
    picked = logp.gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
    return -(picked * weight).sum() / weight.sum()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    rows = [json.loads(s) for s in open("facts_train.jsonl")]
    tok = Tokenizer(rows)
    model = PrefixLM(cfg, len(tok))
    model.tokenizer = tok
    print("parameters:", sum(p.numel() for p in model.parameters()), "vocabulary:", len(tok))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    loader = DataLoader(rows, batch_size=cfg.batch, shuffle=True, collate_fn=Collator(tok), drop_last=True)
    total = cfg.epochs * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / 30) * max(0.05, 1 - s / total))
    step = 0
    for epoch in range(cfg.epochs):
        for batch in loader:
            loss = response_loss(model, batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
            opt.step()
            opt.zero_grad()
            sched.step()
            if step % 25 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}")
            step += 1
    return model


if __name__ == "__main__":
    model = main()
