"""Hugging Face's Trainer on a small GPT-2."""

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
rows = [{"input_ids": row, "labels": row} for row in make_data()]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=8,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        learning_rate=3e-3,
    )
    trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=rows)
    trainer.train()
for line in trainer.state.log_history:
    print(line.get("loss"), line.get("grad_norm"))
print(sum(p.double().sum().item() for p in trainer.model.parameters()))
