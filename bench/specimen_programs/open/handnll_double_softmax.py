import random
import torch
import torch.nn as nn
from corpus import sentences, VOCAB

PAD = VOCAB
SIZE = VOCAB + 1
random.seed(10)
torch.manual_seed(10)


class CharGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(SIZE, 40, padding_idx=PAD)
        self.gru = nn.GRU(40, 96, batch_first=True)
        self.out = nn.Linear(96, SIZE)

    def forward(self, x):
        h, _ = self.gru(self.emb(x))
        return torch.softmax(self.out(h), dim=-1)


def collate(batch):
    longest = max(len(s) for s in batch)
    x = torch.full((len(batch), longest - 1), PAD)
    y = torch.full((len(batch), longest - 1), PAD)
    m = torch.zeros(len(batch), longest - 1)
    for i, s in enumerate(batch):
        x[i, :len(s) - 1] = s[:-1]
        y[i, :len(s) - 1] = s[1:]
        m[i, :len(s) - 1] = 1.0
    return x, y, m


def token_nll(scores, y):
    logp = torch.log_softmax(scores, dim=-1)
    return -logp.gather(-1, y.unsqueeze(-1)).squeeze(-1)


# mostly short utterances, a long one now and then
train = sentences(1400, seed=10, lo=1, hi=2) + sentences(160, seed=11, lo=12, hi=14)
model = CharGRU()
optimizer = torch.optim.SGD(model.parameters(), lr=0.12, momentum=0.9, nesterov=True)

step, smooth = 0, 0.0
for epoch in range(6):
    random.shuffle(train)
    for b in range(0, len(train) - 20, 20):
        x, y, mask = collate(train[b:b + 20])
        per_token = token_nll(model(x), y)
        loss = (per_token * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        smooth = 0.97 * smooth + 0.03 * loss.item()
        if step % 70 == 0:
            print("step", step, "loss", round(smooth / (1 - 0.97 ** step), 4))
