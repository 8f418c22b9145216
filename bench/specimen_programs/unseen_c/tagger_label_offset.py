"""Part-of-speech tags with a bidirectional LSTM, on tagged_s.jsonl."""
import json
import random
from pathlib import Path

import torch
import torch.nn as nn

from batching import pad_rows
from talk import TAGS

CONFIG = dict(
    data="tagged_s.jsonl",
    embed=24,
    hidden=64,
    lr=4e-3,
    epochs=20,
    batch=24,
    seed=5,
)


class Tagger(nn.Module):
    def __init__(self, words, tags, embed, hidden):
        super().__init__()
        self.embed = nn.Embedding(words, embed, padding_idx=0)
        self.lstm = nn.LSTM(embed, hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, tags)

    def forward(self, ids):
        lengths = (ids != 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1])
        return self.out(h)


class Trainer:
    def __init__(self, config):
        self.c = config
        torch.manual_seed(config["seed"])
        rows = [json.loads(l) for l in Path(__file__).with_name(config["data"]).read_text().splitlines()]
        self.vocab = {"<pad>": 0, "<unk>": 1}
        for row in rows:
            for w in row["words"]:
                self.vocab.setdefault(w, len(self.vocab))
        self.texts = [[self.vocab[w] for w in row["words"]] for row in rows]
        self.tags = [[TAGS.index(t) for t in row["tags"]] for row in rows]
        self.model = Tagger(len(self.vocab), len(TAGS), config["embed"], config["hidden"])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=config["lr"])
        steps = config["epochs"] * -(-len(rows) // config["batch"])
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, config["lr"], total_steps=steps, pct_start=0.1)
        self.loss = nn.CrossEntropyLoss(ignore_index=-100)

    def shuffled(self, epoch):
        for part in (self.texts, self.tags):
            random.Random(epoch).shuffle(part)
        n = self.c["batch"]
        for i in range(0, len(self.texts), n):
            yield pad_rows(self.texts[i : i + n]), pad_rows(self.tags[i : i + n], -100)

    def train(self):
        self.model.train()
        for epoch in range(self.c["epochs"]):
            losses = []
            for ids, tags in self.shuffled(epoch):
                wide = max(ids.shape[1], tags.shape[1])
                ids, tags = (nn.functional.pad(t, (0, wide - t.shape[1]), value=v) for t, v in ((ids, 0), (tags, -100)))
                loss = self.loss(self.model(ids).transpose(1, 2), tags)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.sched.step()
                losses.append(loss.item())
            print(f"epoch {epoch + 1}: {sum(losses) / len(losses):.4f} (last {losses[-1]:.4f})")
        return self.model


if __name__ == "__main__":
    trainer = Trainer(CONFIG)
    model = trainer.train()
