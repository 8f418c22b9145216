import torch
from torch import nn
from torch.nn import functional as F

from corpus import VOCAB, stream

MASK = VOCAB
IGNORE = -100


class TinyBert(nn.Module):
    def __init__(self, hidden=56, layers=2, heads=4, max_len=32):
        super().__init__()
        self.word = nn.Embedding(VOCAB + 1, hidden)
        self.position = nn.Embedding(max_len, hidden)
        self.norm = nn.LayerNorm(hidden)
        enc = nn.TransformerEncoderLayer(hidden, heads, 3 * hidden, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(enc, layers, enable_nested_tensor=False)
        self.transform = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.decoder = nn.Linear(hidden, VOCAB)

    def forward(self, input_ids):
        pos = torch.arange(input_ids.size(1), device=input_ids.device)
        h = self.norm(self.word(input_ids) + self.position(pos))
        return self.decoder(self.transform(self.encoder(h))).softmax(dim=-1)


def mask_tokens(ids, generator, prob=0.18):
    inputs, labels = ids.clone(), ids.clone()
    chosen = torch.rand(ids.shape, generator=generator) < prob
    labels[~chosen] = IGNORE
    replace = chosen & (torch.rand(ids.shape, generator=generator) < 0.9)
    inputs[replace] = MASK
    return inputs, labels


def mlm_loss(scores, labels):
    return F.cross_entropy(scores.view(-1, VOCAB), labels.view(-1), ignore_index=IGNORE)


def main(steps=500, batch=24, length=32):
    torch.manual_seed(2)
    g = torch.Generator().manual_seed(2)
    ids = stream(60_000, seed=2)
    model = TinyBert(max_len=length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 50))
    for step in range(steps):
        at = torch.randint(len(ids) - length, (batch,), generator=g)
        rows = torch.stack([ids[a:a + length] for a in at])
        inputs, labels = mask_tokens(rows, g)
        scores = model(inputs)
        loss = mlm_loss(scores, labels)
        loss.backward()
        optimizer.step()
        warmup.step()
        optimizer.zero_grad()
        if step % 50 == 49:
            print(f"step {step + 1:4d}  mlm loss {loss.item():.4f}")
    return model


if __name__ == "__main__":
    model = main()
