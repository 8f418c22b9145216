"""What comes after sixteen characters?  One prediction per window, from all of its characters at once.
The score is the mean log probability of the right character; it is made as big as possible."""
import math

import torch

from talk import ALPHABET, story

CONTEXT, WIDTH, HIDDEN = 16, 24, 256
V = len(ALPHABET)


def lecun(rows, cols, gain=1.0):
    return torch.nn.Parameter(torch.randn(rows, cols) * gain / math.sqrt(rows))


class Lion:
    """sign of a mix of momentum and gradient (Chen et al. 2023); climbs"""

    def __init__(self, params, rate, b1=0.9, b2=0.99):
        self.params, self.rate, self.b1, self.b2 = list(params), rate, b1, b2
        self.m = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def climb(self, factor):
        for p, m in zip(self.params, self.m):
            p.add_((self.b1 * m + (1 - self.b1) * p.grad).sign(), alpha=self.rate * factor)
            m.mul_(self.b2).add_(p.grad, alpha=1 - self.b2)
            p.grad.zero_()


class Window(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = lecun(V, WIDTH, 4.0)
        self.first = lecun(CONTEXT * WIDTH, 2 * HIDDEN)
        self.second = lecun(HIDDEN, 2 * HIDDEN)
        self.last = lecun(HIDDEN, V, 0.3)
        self.b = torch.nn.Parameter(torch.zeros(V))

    def forward(self, ids):
        x = self.letters[ids].flatten(1)
        a, b = (x @ self.first).chunk(2, -1)
        x = a * b.sigmoid()
        a, b = (x @ self.second).chunk(2, -1)
        return (x + a * b.sigmoid()) @ self.last + self.b


def run(steps=1100, batch=192, micro=3, rate=6e-4):
    torch.manual_seed(404)
    data = torch.tensor([ALPHABET.index(c) for c in story(6000, seed=40)])
    everything = data.unfold(0, CONTEXT + 1, 1)              # all windows, sharing the memory of data
    model = Window()
    opt = Lion(model.parameters(), rate)
    for step in range(steps):
        score = 0.0
        for _ in range(micro):
            w = everything[torch.randint(len(everything), (batch // micro,))]
            logp = model(w[:, :-1]).log_softmax(-1)
            part = logp[torch.arange(len(w)), w[:, -1]].sum() / batch
            part.backward()
            score += part.item()
        opt.climb(min(1.0, (step + 1) / 50) * (1 - step / steps))
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}  mean log probability {score:.3f}")
    return model


if __name__ == "__main__":
    model = run()
