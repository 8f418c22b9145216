import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import VOCAB, stream

TOTAL, SAVE_AT = 520, 80


class CharModel(nn.Module):
    def __init__(self, d=40, hidden=96):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d)
        self.core = nn.GRU(d, hidden, batch_first=True)
        self.drop = nn.Dropout(0.05)
        self.head = nn.Linear(hidden, VOCAB)

    def forward(self, x):
        return self.head(self.drop(self.core(self.embed(x))[0]))


class Trainer:
    def __init__(self, model, data, lr=3e-3):
        self.model, self.data, self.step = model, data, 0
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda s: max(0.0, 1 - s / (2 * TOTAL)))

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "scheduler": self.scheduler.state_dict(), "step": self.step}, path)

    def load(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.step = state["step"]

    def run(self, until):
        self.model.train()
        while self.step < until:
            i = torch.randint(len(self.data) - 33, (24, 1)) + torch.arange(33)
            rows = self.data[i]
            loss = F.cross_entropy(self.model(rows[:, :-1]).reshape(-1, VOCAB), rows[:, 1:].reshape(-1))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.step += 1
            if self.step % 40 == 0:
                print(f"step {self.step} lr {self.scheduler.get_last_lr()[0]:.2e} loss {loss.item():.4f}")


def main():
    torch.manual_seed(19)
    data = stream(60_000, seed=19)
    path = os.path.join(tempfile.mkdtemp(), "last.pt")
    first = Trainer(CharModel(), data)
    first.run(SAVE_AT)
    first.save(path)
    print("interrupted; resuming from", os.path.basename(path))
    second = Trainer(CharModel(), data)
    second.load(path)
    second.run(TOTAL)
    return second.model


if __name__ == "__main__":
    model = main()
