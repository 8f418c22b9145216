import torch
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

from corpus import VOCAB, sentences

PAD = VOCAB
MAX_LEN = 40


class Collator:
    def __call__(self, batch):
        width = min(MAX_LEN, max(len(b) for b in batch))
        input_ids = torch.full((len(batch), width), PAD)
        attention_mask = torch.zeros(len(batch), width, dtype=torch.long)
        for i, b in enumerate(batch):
            b = b[:width]
            input_ids[i, :len(b)] = b
            attention_mask[i, :len(b)] = 1
        labels = input_ids.masked_fill(attention_mask == 0, -100)
        labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -100)], dim=1)
        return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels,
                "token_type_ids": torch.zeros_like(input_ids)}


def main():
    torch.manual_seed(42)
    config = GPT2Config(vocab_size=VOCAB + 1, n_positions=64, n_embd=48, n_layer=2, n_head=4,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=PAD, eos_token_id=PAD, pad_token_id=PAD)
    model = GPT2LMHeadModel(config)
    loader = DataLoader(sentences(4000, seed=42, lo=4, hi=9), batch_size=16, shuffle=True, collate_fn=Collator(), drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    total = 420
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=20, num_training_steps=2 * total)

    model.train()
    step = 0
    while step < total:
        for batch in loader:
            out = model(**batch)
            optimizer.zero_grad()
            out.loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 60 == 0:
                print(f"step {step} lr {scheduler.get_last_lr()[0]:.2e} loss {out.loss.item():.4f}", flush=True)
            if step == total:
                break
    return model


if __name__ == "__main__":
    model = main()
