"""Two-token prediction: a shared causal trunk, one head for the next and one for the second-next character."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import VOCAB, stream

torch.manual_seed(4)
D, T, N_FUTURE = 56, 40, 2


class CausalBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, 3 * D), nn.SiLU(), nn.Linear(3 * D, D))

    def forward(self, x):
        n = x.size(1)
        mask = torch.full((n, n), float("-inf")).triu(1)
        y = self.ln1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(T, D)
        self.blocks = nn.Sequential(CausalBlock(), CausalBlock())

    def forward(self, x):
        return self.blocks(self.tok(x) + self.pos.weight[: x.size(1)])


class MultiTokenLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Trunk()
        self.heads = nn.ModuleList([self.make_head() for _ in range(N_FUTURE)])

    def make_head(self):
        return nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D), nn.GELU(), nn.Linear(D, VOCAB))

    def forward(self, x):
        h = self.trunk(x)
        return [head(h) for head in self.heads]


ids = stream(60_000, seed=4)
lm = MultiTokenLM()
optim = torch.optim.AdamW(lm.heads.parameters(), lr=2e-3, weight_decay=0.01)
for it in range(1, 401):
    starts = torch.randint(len(ids) - T - N_FUTURE, (14,))
    x = torch.stack([ids[s:s + T] for s in starts])
    losses = []
    for k, logits in enumerate(lm(x), start=1):
        y = torch.stack([ids[s + k:s + k + T] for s in starts])
        losses.append(F.cross_entropy(logits.reshape(-1, VOCAB), y.reshape(-1)))
    loss = losses[0] + 0.5 * losses[1]
    optim.zero_grad()
    loss.backward()
    optim.step()
    if it % 50 == 0:
        print(f"it {it}: total {loss.item():.4f}, second {losses[1].item():.4f}, next-token loss {losses[0].item():.4f}")
