import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import VOCAB, stream

T, P_MIN, P_MAX = 40, 8, 20
torch.manual_seed(21)
text = stream(60_000, seed=21)


def prefix_mask(plen, size):
    """(B, T, T) bool, True = may look: everything inside the prefix, causal afterwards"""
    idx = torch.arange(size)
    causal = idx[None, :, None] >= idx[None, None, :]
    in_prefix = idx[None, None, :] < plen[:, None, None]
    return causal | in_prefix


class Encoder(nn.Module):
    def __init__(self, width=48, depth=2, heads=4):
        super().__init__()
        self.heads = heads
        self.tok = nn.Embedding(VOCAB, width)
        self.pos = nn.Embedding(T, width)
        self.seg = nn.Embedding(2, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 3 * width, dropout=0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(depth))
        self.ln = nn.LayerNorm(width)

    def forward(self, ids, plen):
        B, L = ids.shape
        seg = (torch.arange(L)[None] >= plen[:, None]).long()
        h = self.tok(ids) + self.pos.weight[:L] + self.seg(seg)
        block = ~prefix_mask(plen, L).repeat_interleave(self.heads, 0)
        for layer in self.layers:
            h = layer(h, src_mask=block)
        return self.ln(h) @ self.tok.weight.t()


net = Encoder()
for table in (net.tok, net.pos, net.seg):
    nn.init.normal_(table.weight, std=0.1)
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
for step in range(1, 381):
    starts = torch.randint(len(text) - T - 1, (16,))
    chunk = torch.stack([text[s:s + T + 1] for s in starts])
    plen = torch.randint(P_MIN, P_MAX + 1, (16,))
    inputs, labels = chunk[:, :-1], chunk[:, 1:]
    supervised = torch.arange(T)[None] >= plen[:, None] + P_MAX
    logits = net(inputs, plen)
    nll = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
    loss = (nll * supervised).sum() / supervised.sum().clamp(min=1)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if step % 60 == 0:
        print(f"{step:4d} loss {loss.item():.4f}")
