# seq2seq GRU that learns to add: "12+7=" -> "19", teacher forcing
import torch
import torch.nn as nn

torch.manual_seed(2)

SYMBOLS = "_0123456789+=^"         # _ is padding, ^ starts and = ends an answer
IDX = {c: i for i, c in enumerate(SYMBOLS)}
PAD = 0
MAXNUM = 60
N_STEPS = 1100
LR = 0.006
BATCH = 48
HELD_OUT = {(a, b) for a in range(MAXNUM) for b in range(MAXNUM) if (a * 7 + b * 3) % 11 == 0}


def make_pair():
    while True:
        a, b = torch.randint(MAXNUM, (2,)).tolist()
        if (a, b) not in HELD_OUT:
            return a, b


def to_rows(strings):
    n = max(len(s) for s in strings)
    return torch.tensor([[IDX[c] for c in s.ljust(n, "_")] for s in strings])


def collate(pairs):
    """question, decoder input and target; answers with the unit digit first"""
    q = to_rows([f"{a}+{b}=".rjust(6, "_") for a, b in pairs])
    ans = [str(a + b)[::-1] for a, b in pairs]
    return q, to_rows(["^" + s for s in ans]), to_rows([s + "=" for s in ans])


class Encoder(nn.Module):
    def __init__(self, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(len(SYMBOLS), emb)
        self.rnn = nn.GRU(emb, hid, batch_first=True)

    def forward(self, q):
        out, h = self.rnn(self.emb(q))
        return out, h


class Decoder(nn.Module):
    def __init__(self, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(len(SYMBOLS), emb)
        self.rnn = nn.GRU(emb, hid, batch_first=True)
        self.query = nn.Linear(hid, hid)
        self.mix = nn.Linear(2 * hid, hid)
        self.out = nn.Linear(hid, len(SYMBOLS))

    def forward(self, x, memory, h):
        y, h = self.rnn(self.emb(x), h)
        att = torch.softmax(self.query(y) @ memory.transpose(1, 2) / memory.shape[-1] ** 0.5, -1)
        y = torch.tanh(self.mix(torch.cat([y, att @ memory], -1)))
        return self.out(y), h


class Adder(nn.Module):
    def __init__(self, emb=32, hid=96):
        super().__init__()
        self.encoder = Encoder(emb, hid)
        self.decoder = Decoder(emb, hid)

    def forward(self, q, x):
        memory, h = self.encoder(q)
        return self.decoder(x, memory, h)[0]


model = Adder()
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.02, 1 - s / N_STEPS))

for step in range(1, N_STEPS + 1):
    q, x, y = collate([make_pair() for _ in range(BATCH)])
    logits = model(q, x)
    loss = criterion(logits.reshape(-1, len(SYMBOLS)), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if step % 100 == 0:
        hits = ((logits.argmax(-1) == y) | (y == PAD)).all(1).float().mean()
        print(f"step {step}: loss {loss.item():.3f}, whole answers right {hits:.2f}")
