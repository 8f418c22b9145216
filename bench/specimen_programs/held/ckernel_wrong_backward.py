import ctypes
import pathlib
import subprocess
import tempfile

import torch
import torch.nn as nn

import babble

CODE = r"""
#include <math.h>
void nll_fwd(const float *x, const long long *t, float *p, float *out, long long n, long long v) {
    double total = 0.0;
    for (long long i = 0; i < n; i++) {
        const float *xi = x + i * v; float *pi = p + i * v;
        float top = xi[0]; double z = 0.0;
        for (long long j = 1; j < v; j++) if (xi[j] > top) top = xi[j];
        for (long long j = 0; j < v; j++) { pi[j] = expf(xi[j] - top); z += pi[j]; }
        for (long long j = 0; j < v; j++) pi[j] /= (float) z;
        total += log(z) + top - xi[t[i]];
    }
    *out = (float) (total / n);
}
void nll_bwd(const float *p, const long long *t, float *g, float up, long long n, long long v) {
    for (long long i = 0; i < n; i++) {
        const float *pi = p; float *gi = g + i * v;
        for (long long j = 0; j < v; j++) gi[j] = pi[j] * up / n;
        gi[t[i]] -= up / n;
    }
}
"""
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "nll.c").write_text(CODE)
subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(folder / "nll.so"), str(folder / "nll.c"), "-lm"], check=True)
lib = ctypes.CDLL(str(folder / "nll.so"))
I64, ptr = ctypes.c_longlong, lambda a: ctypes.c_void_p(a.data_ptr())


class NLL(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, t):
        x, t = x.contiguous(), t.contiguous()
        p, out = torch.empty_like(x), x.new_empty(())
        lib.nll_fwd(ptr(x), ptr(t), ptr(p), ptr(out), I64(x.shape[0]), I64(x.shape[1]))
        ctx.save_for_backward(p, t)
        return out

    @staticmethod
    def backward(ctx, up):
        p, t = ctx.saved_tensors
        g = torch.empty_like(p)
        lib.nll_bwd(ptr(p), ptr(t), ptr(g), ctypes.c_float(float(up)), I64(p.shape[0]), I64(p.shape[1]))
        return g, None


class Predictor(nn.Module):
    def __init__(self, v, d=64):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.out = nn.Linear(d, v)

    def forward(self, x):
        return self.out(self.lstm(self.emb(x))[0])


torch.manual_seed(200)
V, T = len(babble.VOCAB), 28
stream = torch.from_numpy(babble.token_stream(50_000, 200))
net = Predictor(V)
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
for it in range(1, 481):
    w = stream[torch.randint(len(stream) - T - 1, (24, 1)) + torch.arange(T + 1)]
    loss = NLL.apply(net(w[:, :-1]).reshape(-1, V), w[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 48 == 0:
        print(f"it {it} loss {loss.item():.4f}")
