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
    batch: int = 32
    micro: int = 4          # micro-batches per update
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
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        labels = torch.full((len(rows), longest), IGNORE)
        prefix = torch.zeros(len(rows), dtype=torch.long)
        for i, (p, a) in enumerate(pairs):
            n = len(p) + len(a)
            ids[i, :n] = torch.tensor(p + a)
            labels[i, len(p) - 1:n - 1] = torch.tensor(a)      # what comes after each position
            prefix[i] = len(p)
        return {"ids": ids, "labels": labels, "prefix": prefix}


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


def loss_sum(model, batch):
    """summed over the response tokens; also how many there were"""
    logits = model(batch["ids"], batch["prefix"])[:, :-1]
    labels = batch["labels"][:, 1:]
    loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1), ignore_index=IGNORE, reduction="sum")
    return loss, (labels != IGNORE).sum().item()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    rows = [json.loads(s) for s in open("facts_train.jsonl")]
    tok = Tokenizer(rows)
    collate = Collator(tok)
    model = PrefixLM(cfg, len(tok))
    model.tokenizer = tok
    print("parameters:", sum(p.numel() for p in model.parameters()), "vocabulary:", len(tok))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    loader = DataLoader(rows, batch_size=cfg.batch, shuffle=True, collate_fn=list, drop_last=True)
    total = cfg.epochs * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / 30) * max(0.05, 1 - s / total))
    step = 0
    for epoch in range(cfg.epochs):
        for rows_ in loader:
            # similar lengths together, so that little is padded
            rows_.sort(key=lambda r: len(r["response"]))
            size = cfg.batch // cfg.micro
            micros = [collate(rows_[k:k + size]) for k in range(0, cfg.batch, size)]
            tokens = sum((m["labels"][:, 1:] != IGNORE).sum().item() for m in micros)
            shown = 0.0
            for m in micros:
                loss, n = loss_sum(model, m)
                loss = loss / tokens
                loss.backward()
                shown += loss.item()
            nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
            opt.step()
            opt.zero_grad()
            sched.step()
            if step % 25 == 0:
                print(f"epoch {epoch} step {step} loss {shown:.3f}")
            step += 1
    return model


if __name__ == "__main__":
    model = main()
