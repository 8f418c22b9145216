"""Hugging Face's Trainer, twice in one script: a model is trained, and then trained on."""

import tempfile

from tiny import CONTEXT, VOCABULARY, make_data
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(0)
config = GPT2Config(
    vocab_size=VOCABULARY,
    n_positions=CONTEXT + 1,
    n_embd=24,
    n_layer=2,
    n_head=2,
    bos_token_id=0,
    eos_token_id=0,
)


def trained(model, rate, seed):
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
            learning_rate=rate,
        )
        Trainer(model=model, args=arguments, train_dataset=rows).train()
    return model


model = trained(GPT2LMHeadModel(config), 1e-2, 0)
trained(model, 3e-3, 1)
