"""Writes the files the other scripts read:
vocab.json, village_train.jsonl   token ids of short texts, words as tokens
teacher.pt                        a GPT-2 trained on far more of such text (saved from inside its wrapper)
tagged.jsonl                      words and their tags
"""
import json
import math
import random
from collections import Counter

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from talk import story, tagged

LENGTH = 40


def words(text):
    return text.replace(".", " .").replace(",", " ,").replace("'s", " 's").split()


def texts(n, seed):
    """pieces of LENGTH + 1 words"""
    w = words(story(n, seed))
    return [w[i : i + LENGTH + 1] for i in range(0, len(w) - LENGTH, LENGTH)]


class Wrapper(torch.nn.Module):
    def __init__(self, lm):
        super().__init__()
        self.lm = lm

    def forward(self, ids):
        return self.lm(input_ids=ids).logits


if __name__ == "__main__":
    count = Counter(words(story(4000, 50)))
    vocab = [w for w, _ in count.most_common()]
    stoi = {w: i for i, w in enumerate(vocab)}
    json.dump(vocab, open("vocab.json", "w"))
    with open("village_train.jsonl", "w") as f:
        for piece in texts(420, 51):
            f.write(json.dumps({"text": " ".join(piece), "ids": [stoi[w] for w in piece]}) + "\n")

    torch.manual_seed(0)
    model = Wrapper(GPT2LMHeadModel(GPT2Config(vocab_size=len(vocab), n_positions=64, n_embd=64, n_layer=2, n_head=4,
                                               resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)))
    big = torch.tensor([[stoi[w] for w in p] for p in texts(20000, 52)])
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    steps = 1000
    for step in range(steps):
        for g in opt.param_groups:
            g["lr"] = 3e-3 * min(1, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        x = big[torch.randint(len(big), (24,))]
        loss = torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 0 or step == steps - 1:
            print(step, round(loss.item(), 4))
    state = {k: v.half() for k, v in model.state_dict().items() if "lm_head" not in k}
    torch.save(state, "teacher.pt")

    with open("tagged.jsonl", "w") as f:
        for w, t in tagged(1500, 60):
            f.write(json.dumps({"words": w, "tags": t}) + "\n")

    with open("village.bin", "wb") as f:
        f.write(story(2600, 70).encode("ascii"))

    # the same sentences for the tagger with a start symbol
    with open("tagged_s.jsonl", "w") as f:
        for w, t in tagged(1500, 60):
            f.write(json.dumps({"words": ["<s>"] + w, "tags": t}) + "\n")
