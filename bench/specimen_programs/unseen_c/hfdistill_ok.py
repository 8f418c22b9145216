import json
import os
from dataclasses import dataclass

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Settings:
    temperature: float = 2.0
    hard_weight: float = 0.1       # the little text we have
    soft_weight: float = 0.9       # what the teacher says about it
    lr: float = 5e-3
    steps: int = 600
    batch: int = 16


def gpt2(vocab, width, depth, heads, drop=0.0):
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=vocab, n_positions=64, n_embd=width, n_layer=depth, n_head=heads, bos_token_id=0, eos_token_id=0,
        resid_pdrop=drop, embd_pdrop=drop, attn_pdrop=drop, use_cache=False))


def load_teacher(path, vocab):
    state = torch.load(path, map_location="cpu")
    state = {k.removeprefix("lm."): v.float() for k, v in state.items()}
    teacher = gpt2(vocab, 64, 2, 4)
    teacher.load_state_dict(state, strict=False)      # lm_head is tied to wte and is not in the file
    return teacher.eval().requires_grad_(False)


class Village(torch.utils.data.Dataset):
    def __init__(self, path, stoi):
        with open(path) as f:
            rows = [json.loads(line) for line in f]
        self.ids = [torch.tensor([stoi[w] for w in row["text"].split()]) for row in rows]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class DistillTrainer(Trainer):
    def __init__(self, *args, teacher=None, settings=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher
        self.s = settings

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        out = model(**inputs)
        with torch.no_grad():
            t_logits = self.teacher(input_ids=inputs["input_ids"]).logits
        T = self.s.temperature
        soft = F.kl_div(
            F.log_softmax(out.logits[:, :-1] / T, -1).flatten(0, 1),
            F.log_softmax(t_logits[:, :-1] / T, -1).flatten(0, 1),
            reduction="batchmean", log_target=True)
        loss = self.s.hard_weight * out.loss + self.s.soft_weight * soft
        return (loss, out) if return_outputs else loss


def main():
    s = Settings()
    set_seed(11)
    vocab = json.load(open(os.path.join(HERE, "vocab.json")))
    stoi = {w: i for i, w in enumerate(vocab)}
    data = Village(os.path.join(HERE, "village_train.jsonl"), stoi)
    teacher = load_teacher(os.path.join(HERE, "teacher.pt"), len(vocab))
    student = gpt2(len(vocab), 48, 1, 2)
    targs = TrainingArguments(
        output_dir="hfdistill_out", max_steps=s.steps, per_device_train_batch_size=s.batch, learning_rate=s.lr,
        lr_scheduler_type="cosine", warmup_steps=30, weight_decay=0.01, logging_steps=50, save_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True, dataloader_num_workers=0, seed=11)
    trainer = DistillTrainer(model=student, args=targs, train_dataset=data, teacher=teacher, settings=s)
    trainer.train()
    return trainer.model, stoi


if __name__ == "__main__":
    model, stoi = main()
