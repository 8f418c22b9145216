import torch as t
import torch.nn as nn
import torch.nn.functional as F
import babble

t.manual_seed(150)
NV, DIM, HEADS, LENGTH = len(babble.VOCAB), 48, 4, 24
HD = DIM // HEADS


class LinearAttention(nn.Module):
    """fast weights: memory S gets k v^T at each step, read out by q"""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.forget = nn.Linear(DIM, HEADS)
        nn.init.constant_(self.forget.bias, 2.0)

    def forward(self, x):
        b, n, _ = x.shape
        heads = lambda z: z.view(b, n, HEADS, HD)
        q = heads(F.elu(self.q(x)) + 1)
        k = heads(F.elu(self.k(x)) + 1) / HD
        v = heads(self.v(x))
        f = t.sigmoid(self.forget(x))
        S = x.new_zeros(b, HEADS, HD, HD)
        z = x.new_zeros(b, HEADS, HD)
        read = []
        for i in range(n):
            S = f[:, i, :, None, None] * x.new_zeros(S.shape) + t.einsum("bhi,bhj->bhij", k[:, i], v[:, i])
            z = k[:, i]
            top = t.einsum("bhi,bhij->bhj", q[:, i], S)
            low = (q[:, i] * z).sum(-1, keepdim=True)
            read.append((top / (low + 1e-4)).reshape(b, DIM))
        return self.o(t.stack(read, 1))


class Stack(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.emb = nn.Embedding(NV, DIM)
        self.att = nn.ModuleList(LinearAttention() for _ in range(depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 3 * DIM), nn.GELU(), nn.Linear(3 * DIM, DIM)) for _ in range(depth))
        self.pre = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(depth + 1))
        self.unemb = nn.Linear(DIM, NV)

    def forward(self, ids):
        x = self.emb(ids)
        for p, a, f in zip(self.pre, self.att, self.ff):
            x = x + a(p(x))
            x = x + f(x)
        return self.unemb(self.pre[-1](x))


corpus = t.from_numpy(babble.token_stream(50_000, 150))
model = Stack()
opt = t.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(1, 301):
    w = corpus[t.randint(len(corpus) - LENGTH - 1, (16, 1)) + t.arange(LENGTH + 1)]
    loss = F.cross_entropy(model(w[:, :-1]).permute(0, 2, 1), w[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, "loss", f"{loss.item():.4f}")
