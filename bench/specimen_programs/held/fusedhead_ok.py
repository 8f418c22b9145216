import torch
import torch.nn as nn

import babble


class FusedLinearNLL(torch.autograd.Function):
    """Projects to the vocabulary and takes the loss in slices of rows; gradients are made in the forward pass, logits are thrown away."""

    @staticmethod
    def forward(ctx, hidden, weight, target, rows):
        n = target.numel()
        grad_h, grad_w = torch.zeros_like(hidden), torch.zeros_like(weight)
        total = 0.0
        for a in range(0, n, rows):
            b = min(a + rows, n)
            h, t = hidden[a:b], target[a:b]
            logits = h @ weight.t()
            lse = logits.logsumexp(1)
            total += float((lse - logits[torch.arange(b - a), t]).sum())
            p = (logits - lse[:, None]).exp()
            p[torch.arange(b - a), t] -= 1.0
            grad_h[a:b] = p @ weight
            grad_w += p.t() @ h
        ctx.save_for_backward(grad_h / n, grad_w / n)
        return hidden.new_tensor(total / n)

    @staticmethod
    def backward(ctx, g):
        grad_h, grad_w = ctx.saved_tensors
        return g * grad_h, g * grad_w, None, None


class Net(nn.Module):
    def __init__(self, vocab, d=64):
        super().__init__()
        self.inp = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, 1, batch_first=True)
        self.mix = nn.Sequential(nn.Linear(d, d), nn.GELU())
        self.w_out = nn.Parameter(torch.randn(vocab, d) / d ** 0.5)

    def features(self, x):
        return self.mix(self.rnn(self.inp(x))[0])

    def forward(self, x):
        return self.features(x) @ self.w_out.t()


torch.manual_seed(90)
stream = torch.from_numpy(babble.token_stream(60_000, 90))
net = Net(len(babble.VOCAB))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
LEN, BS, ROWS = 30, 24, 160
for step in range(1, 461):
    at = torch.randint(len(stream) - LEN - 1, (BS, 1))
    w = stream[at + torch.arange(LEN + 1)]
    h = net.features(w[:, :-1])
    loss = FusedLinearNLL.apply(h.reshape(-1, h.size(-1)), net.w_out, w[:, 1:].reshape(-1), ROWS)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 46 == 0:
        print(f"step {step:4d} loss {loss.item():.4f}")
