# Hand-made LSTM cell.  A window starts from a blank state somewhere in the text: its first characters
# only warm the state up (nothing is learnt on them), the rest is learnt.
import torch
from torch import nn
import torch.nn.functional as F
from talk import story

torch.manual_seed(29)
RATE = 1.2e-2
WARM, LEARN = 8, 24
ROWS = 24
N_STEPS = 800

text = story(180_000, seed=14)
stoi = {c: i for i, c in enumerate(sorted(set(text)))}
ids = torch.tensor([stoi[c] for c in text])
V = len(stoi)


class Cell(nn.Module):
    def __init__(self, v, h):
        super().__init__()
        self.h = h
        self.inp = nn.Parameter(torch.empty(v, 4 * h))      # one-hot times matrix is just a row
        self.rec = nn.Parameter(torch.empty(h, 4 * h))
        self.bias = nn.Parameter(torch.zeros(4 * h))
        self.out = nn.Parameter(torch.empty(h, v))
        self.out_bias = nn.Parameter(torch.zeros(v))
        with torch.no_grad():
            self.inp.normal_(0, 0.1)
            for k in range(4):
                nn.init.orthogonal_(self.rec[:, k * h:(k + 1) * h])
            self.bias[h:2 * h] = 1.0                        # remember by default
            self.out.uniform_(-h ** -0.5, h ** -0.5)

    def blank(self, rows):
        return torch.zeros(rows, self.h), torch.zeros(rows, self.h)

    def step(self, x, state):
        s, c = state
        z = torch.addmm(self.inp[x] + self.bias, s, self.rec)
        i, f, o, g = z.split(self.h, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        s = o.sigmoid() * c.tanh()
        return s @ self.out + self.out_bias, (s, c)


model = Cell(V, 112)
optimizer = torch.optim.RMSprop(model.parameters(), lr=RATE / 2, alpha=0.95)
smooth = None
for n in range(N_STEPS):
    for group in optimizer.param_groups:
        group["lr"] = RATE / 2 * min(1.0, 2.0 - 1.95 * n / N_STEPS)
    start = torch.randint(len(ids) - WARM - LEARN - 1, (ROWS,))
    rows = ids[start[:, None] + torch.arange(WARM + LEARN + 1)].T      # time first

    state = model.blank(ROWS)
    with torch.no_grad():
        for t in range(WARM):
            _, state = model.step(rows[t], state)

    loss = 0.0
    for t in range(WARM, WARM + LEARN):
        logits, state = model.step(rows[t], state)
        loss = loss + F.cross_entropy(logits, rows[t + 1])
    model.zero_grad()
    (loss / LEARN).backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()

    now = loss.item() / LEARN
    smooth = now if smooth is None else smooth + 0.05 * (now - smooth)
    if n % 50 == 0:
        print("window", n, "loss", round(smooth, 3))
print("end", round(smooth, 3))
