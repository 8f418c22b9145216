"""
Encoder-decoder with cross attention.  The first source token says what to do with the rest:
SORT or REVERSE; the answer is written token by token.
"""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS, SORT, REVERSE, FIRST = 0, 1, 2, 3, 4, 5
LETTERS = 12
V = FIRST + LETTERS
MAXLEN = 9


def make_pairs(n, seed):
    """lists of sources, decoder inputs and decoder targets"""
    r = random.Random(seed)
    src, dec_in, dec_out = [], [], []
    for _ in range(n):
        body = [FIRST + r.randrange(LETTERS) for _ in range(r.randint(4, 7))]
        task = r.choice([SORT, REVERSE])
        answer = sorted(body) if task == SORT else body[::-1]
        src.append([task] + body)
        dec_in.append([BOS] + answer)
        dec_out.append(answer + [EOS])
    return src, dec_in, dec_out


def collate(*columns):
    return [torch.tensor([row + [PAD] * (MAXLEN - len(row)) for row in rows]) for rows in columns]


class Buckets:
    """examples ordered by length so that a batch holds rows of about one length, fresh order each epoch"""

    def __init__(self, columns, size, seed=0):
        self.columns, self.size = columns, size
        self.rng = random.Random(seed)

    def order(self, rows):
        jitter = self.jitter
        return [row for _, row in sorted(zip(jitter, rows), key=lambda p: (len(p[1]), p[0]))]

    def __iter__(self):
        n = len(self.columns[0])
        self.jitter = [self.rng.random() for _ in range(n)]
        columns = [self.order(rows) for rows in self.columns]
        starts = list(range(0, n - self.size + 1, self.size))
        self.rng.shuffle(starts)
        for s in starts:
            yield collate(*(rows[s:s + self.size] for rows in columns))


class Attend(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x, memory, mask):
        B, T, D = x.shape
        q = self.q(x).view(B, T, self.heads, -1).transpose(1, 2)
        k, v = (t.view(B, memory.shape[1], self.heads, -1).transpose(1, 2) for t in self.kv(memory).chunk(2, -1))
        w = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        w = w.masked_fill(~mask, -1e9).softmax(-1)
        return self.o((w @ v).transpose(1, 2).reshape(B, T, D))


def mlp(d):
    return nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))


class EncoderLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n, self.a, self.f = nn.LayerNorm(d), Attend(d, heads), mlp(d)

    def forward(self, x, mask):
        h = self.n(x)
        x = x + self.a(h, h, mask)
        return x + self.f(x)


class DecoderLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.own = nn.LayerNorm(d), Attend(d, heads)
        self.n2, self.cross = nn.LayerNorm(d), Attend(d, heads)
        self.f = mlp(d)

    def forward(self, x, memory, own_mask, cross_mask):
        h = self.n1(x)
        x = x + self.own(h, h, own_mask)
        x = x + self.cross(self.n2(x), memory, cross_mask)
        return x + self.f(x)


class Seq2Seq(nn.Module):
    def __init__(self, d=64, heads=4, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, d), nn.Embedding(MAXLEN, d)
        self.enc = nn.ModuleList(EncoderLayer(d, heads) for _ in range(layers))
        self.dec = nn.ModuleList(DecoderLayer(d, heads) for _ in range(layers))
        self.out = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, V))

    def embed(self, ids):
        return self.tok(ids) + self.pos.weight[:ids.shape[1]]

    def encode(self, src):
        real = src != PAD
        mask = real[:, None, None, :]
        x = self.embed(src).masked_fill(~real[:, :, None], 0.0)
        for layer in self.enc:
            x = layer(x, mask)
        return x, mask

    def forward(self, src, dec_in):
        memory, cross = self.encode(src)
        T = dec_in.shape[1]
        own = torch.ones(T, T, dtype=torch.bool).tril()
        x = self.embed(dec_in)
        for layer in self.dec:
            x = layer(x, memory, own, cross)
        return self.out(x)


def main(epochs=5, size=64):
    torch.manual_seed(0)
    train = Buckets(make_pairs(6000, seed=1), size)
    model = Seq2Seq()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.01)
    total = epochs * (6000 // size)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / 50) * max(0.05, 1 - s / total))
    for epoch in range(epochs):
        seen = 0.0
        for k, (src, dec_in, dec_out) in enumerate(train, 1):
            loss = F.cross_entropy(model(src, dec_in).flatten(0, 1), dec_out.flatten(), ignore_index=PAD)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            seen += loss.item()
        print(f"epoch {epoch}: mean loss {seen / k:.4f}")
    return model


if __name__ == "__main__":
    main()
