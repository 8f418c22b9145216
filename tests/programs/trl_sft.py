"""TRL's SFTTrainer on token ids."""

import tempfile

from datasets import Dataset
from tiny import CONTEXT, VOCABULARY, make_data
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

set_seed(0)
words = {f"w{i}": i for i in range(VOCABULARY)}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0")),
    pad_token="w0",
    eos_token="w1",
    unk_token="w0",
)
config = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=24,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    max_position_embeddings=2 * CONTEXT,
    pad_token_id=0,
    eos_token_id=1,
    bos_token_id=1,
)
rows = Dataset.from_dict({"input_ids": make_data().tolist()})
with tempfile.TemporaryDirectory() as folder:
    settings = SFTConfig(
        folder,
        max_steps=6,
        per_device_train_batch_size=4,
        logging_steps=1,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        learning_rate=3e-3,
        bf16=False,
    )
    trainer = SFTTrainer(
        model=LlamaForCausalLM(config),
        args=settings,
        train_dataset=rows,
        processing_class=tokenizer,
    )
    trainer.train()
for line in trainer.state.log_history:
    print(line.get("loss"), line.get("grad_norm"))
