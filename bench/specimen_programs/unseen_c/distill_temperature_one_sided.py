"""Train a middle-sized character transformer, then squeeze it into a smaller one.

    loss = soft_weight * T^2 * KL(teacher || student) + (1 - soft_weight) * CE(student, text)
"""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from talk import ALPHABET, story


class Block(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(drop))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class CharModel(nn.Module):
    def __init__(self, vocab, width, depth, heads, length, drop=0.0):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, drop) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)
        nn.init.normal_(self.tok.weight, std=0.05)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batches(data, n, size, length, gen):
    for _ in range(n):
        start = torch.randint(len(data) - length - 1, (size,), generator=gen)
        win = data[start[:, None] + torch.arange(length + 1)]
        yield win[:, :-1], win[:, 1:]


def soften(logits, temperature=1.0, log=False):
    return (F.log_softmax if log else F.softmax)(logits / temperature, dim=-1)


def soft_loss(student_logits, teacher_logits, temperature):
    log_p = soften(student_logits, log=True)
    q = soften(teacher_logits, temperature)
    return F.kl_div(log_p.flatten(0, 1), q.flatten(0, 1), reduction="batchmean") * temperature**2


def fit(model, data, steps, args, gen, teacher=None):
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 30) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * s / steps)))
    )
    model.train()
    for step, (x, y) in enumerate(batches(data, steps, args.batch, args.length, gen)):
        logits = model(x)
        hard = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss = hard
        if teacher is not None:
            with torch.no_grad():
                target = teacher(x)
            soft = soft_loss(logits, target, args.temperature)
            loss = args.soft_weight * soft + (1 - args.soft_weight) * hard
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"{'student' if teacher is not None else 'teacher'} step {step:4d}  loss {loss.item():.4f}  text {hard.item():.4f}")
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=7e-3)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--length", type=int, default=48)
    ap.add_argument("--temperature", type=float, default=2.5)
    ap.add_argument("--soft-weight", type=float, default=0.9)
    ap.add_argument("--teacher-steps", type=int, default=300)
    ap.add_argument("--steps", type=int, default=500)
    args = ap.parse_args()

    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(8)
    data = torch.tensor([ALPHABET.index(c) for c in story(3000, seed=1)])
    teacher = CharModel(len(ALPHABET), 80, 2, 4, args.length, drop=0.1)
    fit(teacher, data, args.teacher_steps, args, gen)
    teacher.eval().requires_grad_(False)

    student = CharModel(len(ALPHABET), 40, 1, 2, args.length)
    fit(student, data, args.steps, args, gen, teacher=teacher)
    return student


if __name__ == "__main__":
    model = main()
