import logging
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import babble

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
V, CTX = len(babble.VOCAB), 28


class Crops(Dataset):
    def __init__(self, n, seed):
        self.ids = torch.from_numpy(babble.token_stream(n * 6 + CTX + 1, seed))
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.ids[6 * i:6 * i + CTX + 1]


class WordGRU(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.e, self.g, self.o = nn.Embedding(V, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, V)

    def forward(self, x):
        return self.o(self.g(self.e(x))[0])


class TeacherModule(L.LightningModule):
    def __init__(self, d=80):
        super().__init__()
        self.net = WordGRU(d)

    def training_step(self, rows, i):
        loss = F.cross_entropy(self.net(rows[:, :-1]).transpose(1, 2), rows[:, 1:])
        if i % 50 == 49:
            print(f"teacher epoch {self.current_epoch} batch {i + 1} loss {loss.item():.4f}")
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=4e-3)


class StudentModule(L.LightningModule):
    def __init__(self, teacher, d=40, lr=5e-3, tau=1.0):
        super().__init__()
        self.net, self.lr, self.tau = WordGRU(d), lr, tau
        self.teacher = teacher.requires_grad_(False)

    def training_step(self, rows, i):
        with torch.no_grad():
            aim = (self.teacher(rows[:, :-1]) / self.tau).softmax(-1)
        mine = (self.net(rows[:, :-1]) / self.tau).log_softmax(-1)
        loss = -(aim * mine).sum(-1).mean()
        if i % 50 == 49:
            print(f"student epoch {self.current_epoch} batch {i + 1} loss {loss.item():.4f}")
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.lr)


def trainer(epochs):
    return L.Trainer(max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
                     enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0)


L.seed_everything(170, verbose=False)
loader = DataLoader(Crops(4800, 170), batch_size=24, shuffle=True)
teacher = TeacherModule()
trainer(1).fit(teacher, loader)
student = StudentModule(teacher.net.eval())
trainer(2).fit(student, loader)
