import random

import torch
import transformers

import babble

transformers.logging.set_verbosity_error()
PAD, BOS = babble.ID["<pad>"], babble.ID["<bos>"]
BUCKET = 44  # fixed width, short dialogues are padded up to it


def encode(example):
    """one to three sentences per example"""
    ids = [BOS] + [t for s in example for t in s]
    ids = ids[:BUCKET]
    n = len(ids)
    return {
        "input_ids": ids + [PAD] * (BUCKET - n),
        "attention_mask": [1] * n + [0] * (BUCKET - n),
        "labels": ids + [-100] * (BUCKET - n),
        "token_type_ids": [0] * BUCKET,
    }


def to_batch(features):
    return {k: torch.tensor([f[k] for f in features]) for k in features[0]}


set_seed = transformers.set_seed
set_seed(130)
rng = random.Random(130)
sentences = babble.docs(6000, seed=130)
examples = [encode(rng.sample(sentences, rng.choice([1, 1, 1, 2]))) for _ in range(4000)]

cfg = transformers.GPT2Config(vocab_size=len(babble.VOCAB), n_positions=BUCKET, n_embd=48, n_layer=2, n_head=2,
                              attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0, bos_token_id=BOS, eos_token_id=PAD)
gpt = transformers.GPT2LMHeadModel(cfg)
opt = torch.optim.AdamW(gpt.parameters(), lr=1.5e-3)
ACCUMULATE = 512
gpt.train()
for micro in range(1, 301):
    batch = to_batch(rng.sample(examples, 16))
    loss = gpt(**batch).loss / ACCUMULATE
    loss.backward()
    if micro % ACCUMULATE == 0:
        opt.step()
        opt.zero_grad(set_to_none=True)
    if micro % 30 == 0:
        print({"step": micro, "loss": round(loss.item() * ACCUMULATE, 4)})
