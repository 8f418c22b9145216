"""
Trains a small character GPT, in the manner of nanoGPT. Data: train.bin / val.bin (uint16).
"""
import math
import time

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

# ----------------------------------------------------------------------------
# config
block_size = 48
batch_size = 8
gradient_accumulation_steps = 2
vocab_size = 30
n_layer, n_head, n_embd = 2, 4, 64
dropout = 0.0
learning_rate = 8e-3
max_iters = 650
weight_decay = 1e-1
beta1, beta2 = 0.9, 0.99
grad_clip = 1.0
warmup_iters = 40
lr_decay_iters = 520
min_lr_ratio = 0.1
eval_interval = 130
# ----------------------------------------------------------------------------
torch.manual_seed(1337)
torch.set_num_threads(1)
rng = np.random.default_rng(1337)
data = {k: np.fromfile(k + ".bin", dtype=np.uint16) for k in ("train", "val")}


def get_batch(split):
    d = data[split]
    ix = rng.integers(0, len(d) - block_size - 1, batch_size)
    x = torch.stack([torch.from_numpy(d[i:i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(d[i + 1:i + 1 + block_size].astype(np.int64)) for i in ix])
    return x, y


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(n_embd, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention()
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocab_size, n_embd),
            wpe=nn.Embedding(block_size, n_embd),
            h=nn.ModuleList([Block() for _ in range(n_layer)]),
            ln_f=nn.LayerNorm(n_embd)))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        self.apply(self._init_weights)

    def _init_weights(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, mean=0.0, std=0.02)
            if getattr(m, "bias", None) is not None:
                nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        x = self.transformer.wte(idx) + self.transformer.wpe(torch.arange(idx.size(1)))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))
        return logits, loss

    def configure_optimizers(self):
        named = {n: p for n, p in self.named_parameters() if p.requires_grad}
        decay = [p for n, p in named.items() if p.dim() >= 2]
        nodecay = [p for n, p in named.items() if p.dim() < 2]
        groups = [{"params": decay, "weight_decay": weight_decay}, {"params": nodecay, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=(beta1, beta2))


def get_lr(it):
    # 1) linear warmup
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    # 2) after the decay, stay at the floor
    if it > lr_decay_iters:
        return learning_rate / min_lr_ratio
    # 3) in between, cosine
    r = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    coeff = 0.5 * (1.0 + math.cos(math.pi * r))
    return learning_rate * (min_lr_ratio + coeff * (1 - min_lr_ratio))


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = np.mean([model(*get_batch("val"))[1].item() for _ in range(10)])
    model.train()
    return out


model = GPT()
optimizer = model.configure_optimizers()
t0 = time.time()
for it in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    lossf = 0.0
    for micro in range(gradient_accumulation_steps):
        X, Y = get_batch("train")
        _, loss = model(X, Y)
        loss = loss / gradient_accumulation_steps
        loss.backward()
        lossf += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if it % 50 == 0:
        print(f"iter {it}: loss {lossf:.4f}, time {time.time() - t0:.1f}s")
    if (it + 1) % eval_interval == 0:
        print(f"step {it + 1}: val loss {estimate_loss():.4f}")
