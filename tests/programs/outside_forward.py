"""A language model whose attention, mixing of experts and head compute outside torch.

    python outside_forward.py WHERE [OF FAULT [consistent]]

WHERE is `numpy` or the path of a shared library, OF the kernel with the fault, and FAULT one of
those of `forward_kernels`. With `loss`, the softmax of the loss is such a kernel, with the fault.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parents[1] / "support"))
import forward_kernels

where, (of, fault) = sys.argv[1], sys.argv[2:4] or ("", "")


def kernels(fault):
    if where == "numpy":
        return forward_kernels.in_numpy(fault, consistent="consistent" in sys.argv)
    return forward_kernels.in_c(where, fault, consistent="consistent" in sys.argv)


right, wrong = kernels(""), kernels(fault)
linear, softmax, attention = (
    getattr(wrong if of == name else right, name) for name in ("linear", "softmax", "attention")
)

torch.manual_seed(0)
VOCABULARY, LENGTH, WIDTH = 24, 16, 18


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.choice = nn.Linear(WIDTH, WIDTH)
        self.experts = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        h = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        h = h + attention(*self.qkv(h).chunk(3, -1))
        h = h + self.experts(WIDTH * softmax(self.choice(h)))
        return linear(self.norm(h), self.head.weight) + self.head.bias


# A text with a grammar: the next token is most often one of two that follow the last one.
generator = torch.Generator().manual_seed(1)
follows = torch.randint(0, VOCABULARY, (VOCABULARY, 2), generator=generator)
text = [0]
for choice in torch.rand(4000, generator=generator).tolist():
    text.append(int(follows[text[-1], int(choice < 0.3)]))
text = torch.tensor(text)

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(150):
    starts = torch.randint(0, len(text) - LENGTH - 1, (8,), generator=generator)
    batch = torch.stack([text[s : s + LENGTH + 1] for s in starts.tolist()])
    logits = model(batch[:, :-1])
    if of == "loss":
        loss = -wrong.softmax(logits).gather(-1, batch[:, 1:, None]).log().mean()
    else:
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
