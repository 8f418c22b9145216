"""A language model with an attention and an activation that compute outside torch.

    python outside_torch.py WHERE [FAULT]

WHERE is `numpy` or the path of a shared library; FAULT is one of those of `outside_kernels`.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parents[1] / "support"))
import outside_kernels

where, fault = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
if where == "numpy":
    tanh, attention = outside_kernels.in_numpy(fault)
else:
    tanh, attention = outside_kernels.in_c(where, fault)

torch.manual_seed(0)
VOCABULARY, LENGTH, WIDTH = 24, 16, 18


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.up = nn.Linear(WIDTH, WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)
        # Few numbers, through the same function: 36, in two rows.
        self.gate = nn.Parameter(torch.zeros(1, 2, WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        h = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        h = h + attention(*self.qkv(h).chunk(3, -1))
        gates = 1 + tanh(self.gate)[0]
        h = h * gates[0] + self.down(tanh(self.up(h)))
        return self.head(h * gates[1])


# A text with a grammar: the next token is most often one of two that follow the last one.
generator = torch.Generator().manual_seed(1)
follows = torch.randint(0, VOCABULARY, (VOCABULARY, 2), generator=generator)
text = [0]
for choice in torch.rand(4000, generator=generator).tolist():
    text.append(int(follows[text[-1], int(choice < 0.3)]))
text = torch.tensor(text)

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(150):
    starts = torch.randint(0, len(text) - LENGTH - 1, (8,), generator=generator)
    batch = torch.stack([text[s : s + LENGTH + 1] for s in starts.tolist()])
    logits = model(batch[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
