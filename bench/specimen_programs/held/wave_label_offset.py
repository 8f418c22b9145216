import torch as th
import torch.nn as nn
import torch.nn.functional as F
import babble

CFG = dict(seq=40, batch=24, width=56, iters=380, lr=2.5e-3, seed=17)
NV = len(babble.VOCAB)


class CausalConv(nn.Conv1d):
    def __init__(self, cin, cout, k):
        super().__init__(cin, cout, k, padding=k - 1)

    def forward(self, x):
        return super().forward(x)[..., : x.shape[-1]]


class ChannelNorm(nn.Module):
    """layer norm over channels of a (B, C, T) tensor"""

    def __init__(self, c):
        super().__init__()
        self.g = nn.Parameter(th.ones(1, c, 1))
        self.b = nn.Parameter(th.zeros(1, c, 1))

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        sd = x.var(1, keepdim=True, unbiased=False).add(1e-5).sqrt()
        return (x - mu) / sd * self.g + self.b


class TextCNN(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(NV, c)
        self.convs = nn.ModuleList(CausalConv(c, c, 4) for _ in range(3))
        self.norms = nn.ModuleList(ChannelNorm(c) for _ in range(3))
        self.to_logits = nn.Conv1d(c, NV, kernel_size=1)

    def forward(self, tokens):
        x = self.emb(tokens).permute(0, 2, 1)
        for conv, norm in zip(self.convs, self.norms):
            x = x + F.gelu(conv(norm(x)))
        return self.to_logits(x)


def get(tokens, n, T, gen):
    ix = th.randint(len(tokens) - T - 2, (n,), generator=gen)
    win = th.stack([tokens[i:i + T + 2] for i in ix])
    return win[:, :T], win[:, 2:T + 2]


def run(cfg):
    th.manual_seed(cfg["seed"])
    gen = th.Generator().manual_seed(cfg["seed"])
    tokens = th.from_numpy(babble.token_stream(50000, 0))
    net = TextCNN(cfg["width"])
    optim = th.optim.Adam(net.parameters(), lr=cfg["lr"])
    for it in range(cfg["iters"]):
        inp, tgt = get(tokens, cfg["batch"], cfg["seq"], gen)
        logits = net(inp)                      # B x V x T
        loss = F.cross_entropy(logits, tgt)
        optim.zero_grad()
        loss.backward()
        optim.step()
        if (it + 1) % 40 == 0:
            print("iter", it + 1, "train loss %.3f" % loss)
    return net


if __name__ == "__main__":
    net = run(CFG)
