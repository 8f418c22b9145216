"""A tiny LLaMA from scratch with the Hugging Face Trainer; one sentence per example, padded in the collator."""
import os
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, get_linear_schedule_with_warmup, set_seed

import talk

PAD, BOS, EOS = 0, 1, 2
word_id = {w: i + 3 for i, w in enumerate(talk.words())}


class Sentences(Dataset):
    def __init__(self, n, seed):
        self.rows = [[BOS] + [word_id[w] for w in s.split()] + [EOS] for s in talk.sentences(n, seed)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i]}


class Collator:
    def __init__(self, pad, ignore=-100, multiple=8):
        self.pad, self.ignore, self.multiple = pad, ignore, multiple

    def fill(self, rows, value, width):
        return torch.tensor([list(r) + [value] * (width - len(r)) for r in rows])

    def __call__(self, examples):
        rows = [e["input_ids"] for e in examples]
        width = max(map(len, rows))
        width = -(-width // self.multiple) * self.multiple
        return {
            "input_ids": self.fill(rows, self.pad, width),
            "attention_mask": self.fill([[1] * len(r) for r in rows], 0, width),
            "labels": self.fill(rows, self.ignore, width),
        }


def main():
    set_seed(5)
    config = LlamaConfig(
        vocab_size=len(word_id) + 3, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, tie_word_embeddings=False,
        initializer_range=0.04,
    )
    model = LlamaForCausalLM(config)
    train, held = Sentences(3200, seed=1), Sentences(200, seed=2)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(), use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True,
        num_train_epochs=3, per_device_train_batch_size=16, learning_rate=6e-3,
        lr_scheduler_type="cosine", warmup_steps=20, weight_decay=0.01, adam_beta2=0.98,
        logging_steps=50, eval_strategy="epoch", seed=5, dataloader_num_workers=0,
    )
    opt = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    decay = get_linear_schedule_with_warmup(opt, args.warmup_steps, len(train) // args.per_device_train_batch_size // 8)
    trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=held,
                      data_collator=Collator(PAD), optimizers=(opt, decay))
    trainer.train()
    return model


if __name__ == "__main__":
    main()
