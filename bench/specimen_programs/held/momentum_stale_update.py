import torch
import torch.nn as nn
import torch.nn.functional as F

import babble

CTX, DIM = 28, 52
VOC = len(babble.VOCAB)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(VOC, DIM)
        self.p = nn.Embedding(CTX, DIM)
        enc = nn.TransformerEncoderLayer(DIM, 4, 2 * DIM, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(enc, 2, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, VOC)

    def forward(self, ids):
        n = ids.size(1)
        mask = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
        h = self.body(self.e(ids) + self.p.weight[:n], mask=mask)
        return h, self.head(h)


class Momentum:
    """slow copy whose representation of the next position is the regression target (no gradient into it)"""

    def __init__(self, net, m):
        self.m = m
        self.net = Net()
        self.net.load_state_dict(net.state_dict())
        self.net.requires_grad_(False)

    @torch.no_grad()
    def follow(self, net):
        fast, slow = net.state_dict(), self.net.state_dict()
        for name in slow:
            slow[name].mul_(self.m).add_(fast[name], alpha=1 - self.m)

    @torch.no_grad()
    def target(self, ids):
        return F.normalize(self.net(ids)[0], dim=-1)


class Batches:
    def __init__(self, stream, n, seed):
        self.stream, self.n = stream, n
        self.g = torch.Generator().manual_seed(seed)

    def draw(self, step):
        at = torch.randint(len(self.stream) - CTX - 1, (self.n, 1), generator=self.g)
        return self.stream[at + torch.arange(CTX + 1)]


torch.manual_seed(160)
net = Net()
slow = Momentum(net, m=0.99)
predictor = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
opt = torch.optim.AdamW([*net.parameters(), *predictor.parameters()], lr=2e-3)
batches = Batches(torch.from_numpy(babble.token_stream(50_000, 160)), 16, seed=160)
for step in range(460):
    block = batches.draw(step)
    hidden, logits = net(block[:, :-1])
    ce = F.cross_entropy(logits.transpose(1, 2), block[:, 1:])
    guess = F.normalize(predictor(hidden[:, :-1]), dim=-1)
    align = (guess - slow.target(block[:, :-1])[:, 1:]).pow(2).sum(-1).mean()
    opt.zero_grad()
    (ce + 0.1 * align).backward()
    opt.step()
    slow.follow(net)
    net.load_state_dict(slow.net.state_dict())
    if step % 46 == 45:
        print(f"{step + 1:4d} align {align.item():.3f} loss {ce.item():.4f}")
