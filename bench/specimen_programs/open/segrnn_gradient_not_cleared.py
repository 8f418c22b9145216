import math
import torch
import torch.nn as nn
from corpus import stream, VOCAB

# truncated backpropagation through time, data laid out (time, batch) as in the old PyTorch word_language_model example


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len]


def repackage(h):
    return tuple(v.detach() for v in h)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp=48, nhid=96):
        super().__init__()
        self.nhid = nhid
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, inp, hidden):
        out, hidden = self.rnn(self.encoder(inp), hidden)
        return self.decoder(out), hidden

    def init_hidden(self, bsz):
        return torch.zeros(1, bsz, self.nhid), torch.zeros(1, bsz, self.nhid)


torch.manual_seed(7)
bsz, bptt, epochs = 16, 32, 3
train_data = batchify(stream(110_000, seed=3), bsz)
model = RNNModel(VOCAB)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

n = 0
for epoch in range(epochs):
    hidden = model.init_hidden(bsz)
    for i in range(0, train_data.size(0) - 1, bptt):
        data, targets = get_batch(train_data, i, bptt)
        hidden = repackage(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output.reshape(-1, VOCAB), targets.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        n += 1
        if n % 60 == 0:
            print(f"| epoch {epoch} | {n:5d} batches | loss {loss.item():.3f} | ppl {math.exp(loss.item()):.2f}")
print("done", n, "steps, loss", f"{loss.item():.4f}")
