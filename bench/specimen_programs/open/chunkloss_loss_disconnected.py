import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import VOCAB, stream


class Decoder(nn.Module):
    def __init__(self, dim=52, depth=2, heads=4, block=48):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, dim), nn.Embedding(block, dim)
        self.h = nn.ModuleList([nn.TransformerEncoderLayer(dim, heads, 3 * dim, dropout=0.0, activation="gelu",
                                                           batch_first=True, norm_first=True) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, VOCAB, bias=False)

    def hidden(self, idx):
        t = idx.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        x = self.wte(idx) + self.wpe.weight[:t]
        for block in self.h:
            x = block(x, src_mask=mask, is_causal=True)
        return self.ln_f(x)

    def forward(self, idx):
        return self.lm_head(self.hidden(idx))


def chunked_cross_entropy(hidden, head, targets, chunk=128):
    """never holds the full logits: sums the loss chunk by chunk, divides once"""
    hidden = hidden.reshape(-1, hidden.size(-1))
    targets = targets.reshape(-1)
    total = hidden.new_zeros(())
    for i in range(0, targets.numel(), chunk):
        part = hidden[i:i + chunk]
        logits = head(part)
        total = total + F.cross_entropy(logits, targets[i:i + chunk], reduction="sum")
    return total / targets.numel()


def main():
    torch.manual_seed(99)
    data = stream(50_000, seed=9)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2.5e-3, betas=(0.9, 0.95))
    block, bsz = 48, 12
    for it in range(400):
        ix = torch.randint(len(data) - block - 1, (bsz,))
        x = torch.stack([data[i:i + block] for i in ix])
        y = torch.stack([data[i + 1:i + 1 + block] for i in ix])
        optimizer.zero_grad(set_to_none=True)
        loss = chunked_cross_entropy(model.hidden(x), model.lm_head, y)
        model.lm_head(model.hidden(x)).logsumexp(-1).pow(2).mean().backward()
        optimizer.step()
        if it % 40 == 39:
            print(f"iter {it + 1}: loss {loss.item():.4f}")
    return model


if __name__ == "__main__":
    model = main()
