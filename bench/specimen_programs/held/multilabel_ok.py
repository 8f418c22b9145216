import torch
import torch.nn as nn
import torch.nn.functional as F

from babble import VOCAB, token_stream

K = 2  # the label of a position is the set of the next K tokens


class MultiLabelLM(nn.Module):
    def __init__(self, vocab, d=56, n_head=4, n_layer=2, ctx=32):
        super().__init__()
        self.token, self.where = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.ModuleList()
        for _ in range(n_layer):
            self.blocks.append(nn.ModuleList([nn.LayerNorm(d), nn.MultiheadAttention(d, n_head, batch_first=True),
                                              nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(3 * d, d)]))
        self.final = nn.LayerNorm(d)
        self.classify = nn.Linear(d, vocab)
        nn.init.constant_(self.classify.bias, -3.0)
        self.register_buffer("hidden_from", torch.triu(torch.ones(ctx, ctx, dtype=torch.bool), diagonal=1))

    def forward(self, ids):
        n = ids.size(1)
        x = self.token(ids) + self.where.weight[:n]
        for norm1, attn, norm2, up, down in self.blocks:
            y = norm1(x)
            x = x + attn(y, y, y, attn_mask=self.hidden_from[:n, :n], need_weights=False)[0]
            x = x + down(F.gelu(up(norm2(x))))
        return self.classify(self.final(x))


def targets(window, n, vocab):
    want = torch.zeros(window.size(0), n, vocab)
    for k in range(1, K + 1):
        want.scatter_(2, window[:, k:k + n].unsqueeze(-1), 1.0)
    return want


def train():
    torch.manual_seed(120)
    vocab, ctx, bs = len(VOCAB), 32, 16
    data = torch.as_tensor(token_stream(50_000, 120))
    model = MultiLabelLM(vocab, ctx=ctx)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    criterion = nn.BCEWithLogitsLoss(reduction="none")
    for step in range(400):
        at = torch.randint(len(data) - ctx - K, (bs,))
        window = torch.stack([data[a:a + ctx + K] for a in at])
        scores = model(window[:, :ctx])
        want = targets(window, ctx, vocab)
        loss = criterion(scores, want).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 49:
            print(f"{step + 1:>5} loss {loss.item():.4f}")
    return model


if __name__ == "__main__":
    model = train()
