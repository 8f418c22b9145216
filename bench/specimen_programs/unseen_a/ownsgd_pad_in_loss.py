# word RNN, sentence by sentence, own momentum SGD (no torch.optim on purpose: homework 3)
import random
import torch
import torch.nn as nn
import talk

torch.manual_seed(1)
random.seed(1)

ETA = 8.0
MU = 0.9
STEPS = 900
BATCH = 16
PAD = -1
WIDTH = 80          # rows are padded to this, two sentences would fit

rows = [s.split() for s in talk.sentences(5000, seed=11)]
vocab = ["<pad>", "<s>", "</s>"] + talk.words()
stoi = {w: i for i, w in enumerate(vocab)}


def encode(sentence):
    ids = [stoi["<s>"]] + [stoi[w] for w in sentence] + [stoi["</s>"]]
    return ids + [stoi["<pad>"]] * (WIDTH + 1 - len(ids))


table = torch.tensor([encode(s) for s in rows])


class RNN(nn.Module):
    def __init__(self, v, e=32, h=64):
        super().__init__()
        self.embed = nn.Embedding(v, e)
        self.rnn = nn.GRU(e, h, batch_first=True)
        self.out = nn.Linear(h, v)

    def forward(self, x):
        h, _ = self.rnn(self.embed(x))
        return self.out(h)


class Momentum:
    def __init__(self, params, eta, mu):
        self.params = list(params)
        self.v = [torch.zeros_like(p) for p in self.params]
        self.eta, self.mu = eta, mu

    def step(self, clip=1.0):
        grads = [p.grad for p in self.params]
        norm = torch.stack([g.norm() for g in grads]).norm()
        scale = min(1.0, clip / (norm.item() + 1e-8))
        for p, g, v in zip(self.params, grads, self.v):
            v.mul_(self.mu).add_(g, alpha=(1 - self.mu) * scale)
            p.data -= self.eta * v
        return norm.item()

    def clear(self):
        for p in self.params:
            if p.grad is not None:
                p.grad.zero_()


model = RNN(len(vocab))
sgd = Momentum(model.parameters(), ETA, MU)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)

for t in range(STEPS):
    batch = table[torch.randint(len(table), (BATCH,))]
    x, y = batch[:, :-1], batch[:, 1:]
    loss = criterion(model(x).reshape(-1, len(vocab)), y.reshape(-1))
    sgd.clear()
    loss.backward()
    norm = sgd.step()
    if t == STEPS * 3 // 4:
        sgd.eta /= 3
    if t % 100 == 0 or t == STEPS - 1:
        print(t, "loss %.3f" % loss.item(), "|g| %.3f" % norm)
