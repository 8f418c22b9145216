import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import VOCAB, stream

torch.manual_seed(17)
DATA = stream(60_000, seed=17)
B, T = 20, 32


class CharLSTM(nn.Module):
    def __init__(self, emb, hidden):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, emb)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True)
        self.proj = nn.Linear(hidden, VOCAB)

    def forward(self, x):
        y, _ = self.lstm(self.emb(x))
        return self.proj(y)


def batch():
    i = torch.randint(len(DATA) - T - 1, (B, 1)) + torch.arange(T + 1)
    return DATA[i][:, :-1], DATA[i][:, 1:]


def train_teacher(steps):
    teacher = CharLSTM(48, 112)
    opt = torch.optim.Adam(teacher.parameters(), lr=4e-3)
    for step in range(1, steps + 1):
        x, y = batch()
        loss = F.cross_entropy(teacher(x).reshape(-1, VOCAB), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"teacher {step:4d} loss {loss.item():.4f}")
    return teacher.eval()


def distil(teacher, steps, temperature=1.5):
    student = CharLSTM(32, 64)
    opt = torch.optim.Adam(student.parameters(), lr=5e-3)
    for step in range(1, steps + 1):
        x, y = batch()
        with torch.no_grad():
            soft = F.softmax(teacher(x) / temperature, dim=-1)
        logits = student(x)
        logq = F.log_softmax(F.softmax(logits / temperature, dim=-1), dim=-1)
        loss = F.kl_div(logq.reshape(-1, VOCAB), soft.reshape(-1, VOCAB), reduction="batchmean") * temperature ** 2
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            ce = F.cross_entropy(logits.detach().reshape(-1, VOCAB), y.reshape(-1))
            print(f"student {step:4d} ce {ce.item():.4f} loss {loss.item():.4f}")
    return student


teacher = train_teacher(350)
student = distil(teacher, 350)
