import torch, math
import torch.nn as nn
import torch.nn.functional as F
from corpus import sentences, VOCAB

BOS = VOCAB
V = VOCAB + 1
ROW = 64
torch.manual_seed(11)
docs = sentences(3000, seed=8, lo=2, hi=4)


def pack(order):
    """fill a row with documents until it is full; the last one is cut"""
    ids, doc, pos = [], [], []
    k = 0
    while len(ids) < ROW + 1:
        d = [BOS] + docs[order[k]].tolist()
        ids += d
        doc += [k] * len(d)
        pos += list(range(len(d)))
        k += 1
    n = ROW + 1
    return ids[:n], doc[:n], pos[:n]


def make_batch(bs):
    rows = [pack(torch.randint(0, len(docs), (32,)).tolist()) for _ in range(bs)]
    ids, doc, pos = (torch.tensor(t) for t in zip(*rows))
    return ids, doc, pos


def attention_mask(doc, step):
    same = doc[:, :, None] == doc[:, None, :]
    causal = torch.ones(doc.size(1), doc.size(1), dtype=torch.bool).tril()
    return (same & causal)[:, None]


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x, mask):
        B, T, D = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, D))
        return x + self.ff(self.n2(x))


class PackedLM(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, d), nn.Embedding(ROW + 1, d)
        self.layers = nn.ModuleList([Layer(d, 4) for _ in range(2)])
        self.norm, self.lm_head = nn.LayerNorm(d), nn.Linear(d, V)

    def forward(self, ids, pos, mask):
        x = self.tok(ids) + self.pos(pos)
        for layer in self.layers:
            x = layer(x, mask)
        return self.lm_head(self.norm(x))


model = PackedLM()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
for step in range(1, 481):
    ids, doc, pos = make_batch(8)
    logits = model(ids[:, :-1], pos[:, :-1], attention_mask(doc[:, :-1], step))
    target = ids[:, 1:].masked_fill(doc[:, 1:] != doc[:, :-1], -100)
    loss = F.cross_entropy(logits.reshape(-1, V), target.reshape(-1), ignore_index=-100)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(f"step={step} loss={loss.item():.4f}")
