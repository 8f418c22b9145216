"""Hugging Face's Trainer, twice in one script: a teacher is trained, then a student from it.

python hf_trainer_distils.py [ahead]

With "ahead", the student's targets are two tokens ahead.
"""

import sys
import tempfile

import torch
from tiny import CONTEXT, VOCABULARY, make_data
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

AHEAD = 2 if sys.argv[1:] == ["ahead"] else 1

set_seed(0)


def gpt(layers):
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=CONTEXT + 1,
        n_embd=24,
        n_layer=layers,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config)


class Distils(Trainer):
    def __init__(self, teacher, **given):
        super().__init__(**given)
        self.teacher = teacher.eval()

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        tokens = inputs["input_ids"]
        scores = model(input_ids=tokens).logits
        with torch.no_grad():
            wanted = self.teacher(input_ids=tokens).logits.softmax(-1)
        taught = F.kl_div(
            scores.log_softmax(-1).flatten(0, 1), wanted.flatten(0, 1), reduction="batchmean"
        )
        rows, targets = scores[:, :-AHEAD], tokens[:, AHEAD:]
        return F.cross_entropy(rows.flatten(0, 1), targets.flatten()) + 0.1 * taught


def trained(model, make, seed):
    rows = [{"input_ids": row, "labels": row} for row in make_data(seed=seed)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=60,
            per_device_train_batch_size=8,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            learning_rate=1e-2,
        )
        make(model=model, args=arguments, train_dataset=rows).train()
    return model


teacher = trained(gpt(2), Trainer, 0)
trained(gpt(1), lambda **given: Distils(teacher, **given), 1)
