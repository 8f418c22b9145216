import torch
import torch.nn as nn
import torch.nn.functional as F

from talk import story

torch.manual_seed(7)

STREAMS = 32        # parallel reading heads on the text
SEGMENT = 32        # characters between two updates
PASSES = 5
HIDDEN = 128
LR = 8e-3

text = story(240_000, seed=1)
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
ids = torch.tensor([stoi[c] for c in text])


class Feed:
    """STREAMS long strips of the text, walked segment by segment, over and over"""

    def __init__(self, ids, streams, segment):
        per = (len(ids) - 1) // streams
        self.x = ids[:per * streams].view(streams, per)
        self.y = ids[1:per * streams + 1].view(streams, per)
        self.segment = segment
        self.count = per // segment
        self.it = self.walk()

    def walk(self):
        while True:
            for k in range(self.count):
                s = slice(k * self.segment, (k + 1) * self.segment)
                yield k == 0, self.x[:, s], self.y[:, s]

    def next(self):
        return next(self.it)


def repackage(h):
    """cut the history of a state, however nested"""
    if torch.is_tensor(h):
        return h.detach()
    return tuple(repackage(v) for v in h)


class CharLSTM(nn.Module):
    def __init__(self, vocab, hidden, emb=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        out, state = repackage(self.lstm(self.emb(x), state))
        return self.head(out), state


model = CharLSTM(len(chars), HIDDEN)
opt = torch.optim.Adam(model.parameters(), lr=LR)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.6)
feed = Feed(ids, STREAMS, SEGMENT)

state, avg = None, None
for step in range(PASSES * feed.count):
    fresh, x, y = feed.next()
    if fresh:
        state = None
    logits, state = model(x, state)
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if (step + 1) % feed.count == 0:
        sched.step()
    avg = loss.item() if avg is None else 0.95 * avg + 0.05 * loss.item()
    if step % 50 == 0:
        print(f"{step:5d}  loss {avg:.3f}  lr {sched.get_last_lr()[0]:.1e}")
print("done", round(avg, 3))
