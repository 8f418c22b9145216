import random
import torch
import torch.nn as nn

PAD, SOS, EOS = 0, 1, 2
SRC_WORDS, OFFSET = 20, 3
VOC = OFFSET + SRC_WORDS


def make_pair(rng):
    """word by word, but the word in front decides which of two translations is meant; order is reversed"""
    n = rng.randint(4, 7)
    src = [OFFSET + rng.randrange(SRC_WORDS) for _ in range(n)]
    out = []
    for left, w in zip([OFFSET] + src, src):
        shift = 7 if left % 2 else 3
        out.append(OFFSET + (w - OFFSET + shift) % SRC_WORDS)
    out.reverse()
    return src, out


def collate(pairs):
    S = max(len(s) for s, _ in pairs)
    L = max(len(t) for _, t in pairs) + 1
    src = torch.full((len(pairs), S), PAD)
    tgt_in = torch.full((len(pairs), L), PAD)
    tgt_out = torch.full((len(pairs), L), PAD)
    for k, (s, t) in enumerate(pairs):
        src[k, :len(s)] = torch.tensor(s)
        tgt_in[k, :len(t) + 1] = torch.tensor([SOS] + t)
        tgt_out[k, :len(t) + 1] = torch.tensor(t + [EOS])
    return src, tgt_in, tgt_out


class Seq2Seq(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(VOC, d), nn.Embedding(VOC, d)
        self.pos = nn.Embedding(64, d)
        self.transformer = nn.Transformer(d, 4, num_encoder_layers=2, num_decoder_layers=1, dim_feedforward=96,
                                          dropout=0.0, batch_first=True, norm_first=True)
        self.generator = nn.Linear(d, VOC)

    def add_pos(self, e):
        return e + self.pos(torch.arange(e.size(1)))

    def forward(self, src, tgt):
        src_pad, tgt_pad = src == PAD, tgt == PAD
        memory = self.transformer.encoder(self.add_pos(self.src_emb(src.masked_fill(~src_pad, SOS))), src_key_padding_mask=src_pad)
        causal = torch.triu(torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool), 1)
        out = self.transformer.decoder(self.add_pos(self.tgt_emb(tgt)), memory, tgt_mask=causal,
                                       tgt_key_padding_mask=tgt_pad, memory_key_padding_mask=src_pad)
        return self.generator(out)


rng = random.Random(0)
torch.manual_seed(0)
model = Seq2Seq()
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
model.train()
for step in range(1, 701):
    src, tgt_in, tgt_out = collate([make_pair(rng) for _ in range(24)])
    logits = model(src, tgt_in)
    loss = criterion(logits.reshape(-1, VOC), tgt_out.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 70 == 0:
        print(f"step {step} loss {loss.item():.4f}")
