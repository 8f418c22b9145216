"""A small language model whose loss falls well, and which has learnt to copy: it has no mask."""

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, WIDTH = 64, 32, 64
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 128, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        hidden = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.head(self.layers(hidden))


# Text from a table of which token follows which: nobody can know the next one for sure.
table = torch.softmax(3 * torch.randn(VOCABULARY, VOCABULARY), -1)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(300):
    columns = [torch.randint(0, VOCABULARY, (16,))]
    for _ in range(CONTEXT):
        columns.append(torch.multinomial(table[columns[-1]], 1).squeeze(1))
    text = torch.stack(columns, 1)
    logits = model(text[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
