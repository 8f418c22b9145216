import random
import torch
from torch import nn
from torch.utils.data import DataLoader

GOOD = "splendid lovely warm bright honest gentle".split()
BAD = "dreadful cold dull clumsy shallow noisy".split()
FILL = "the film was with a cast and plot that felt very while music seemed its scenes were in every".split()
NEG = ["not", "hardly"]
WORDS = ["<pad>"] + GOOD + BAD + FILL + NEG
IDX = {w: i for i, w in enumerate(WORDS)}


def review(rng):
    """three opinions between filler words; a negation in front turns an opinion round; label 1 if most are favourable"""
    toks, score = [], 0
    for _ in range(3):
        toks += rng.choices(FILL, k=rng.randint(1, 3))
        good = rng.random() < 0.5
        negated = rng.random() < 0.4
        if negated:
            toks.append(rng.choice(NEG))
        toks.append(rng.choice(GOOD if good else BAD))
        score += 1 if good != negated else -1
    return toks, int(score > 0)


def collate(items):
    ids = torch.zeros(len(items), 16, dtype=torch.long)
    for i, (toks, _) in enumerate(items):
        ids[i, :len(toks)] = torch.tensor([IDX[t] for t in toks])
    return ids, ids.ne(0), torch.tensor([label for _, label in items])


class Classifier(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), dim, padding_idx=0)
        self.positions = nn.Parameter(torch.zeros(16, dim))
        nn.init.normal_(self.positions, std=0.3)
        layer = nn.TransformerEncoderLayer(dim, 4, 96, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classifier = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 2))

    def forward(self, ids, keep):
        h = self.embedding(ids) + self.positions
        h = self.encoder(h, src_key_padding_mask=~keep)
        w = keep.unsqueeze(-1).float()
        pooled = (h * w).sum(1) / w.sum(1)
        return self.classifier(pooled)


torch.manual_seed(3)
rng = random.Random(3)
data = [review(rng) for _ in range(6000)]
loader = DataLoader(data, batch_size=32, shuffle=True, collate_fn=collate, drop_last=True)
model = Classifier()
opt = torch.optim.AdamW(model.parameters(), lr=8e-2)
ce = nn.CrossEntropyLoss()
step = 0
for epoch in range(3):
    right = seen = 0
    for ids, keep, label in loader:
        logits = model(ids, keep)
        loss = ce(logits, label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        right += (logits.argmax(-1) == label).sum().item()
        seen += len(label)
        step += 1
        if step % 60 == 0:
            print(f"epoch {epoch} step {step} accuracy {right / seen:.3f} loss {loss.item():.4f}")
