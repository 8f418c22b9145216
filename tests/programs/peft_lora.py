"""LoRA through PEFT: most parameters are frozen on purpose."""

import torch
from peft import LoraConfig, get_peft_model
from tiny import CONTEXT, VOCABULARY, batches
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=24,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=CONTEXT,
)
model = get_peft_model(
    LlamaForCausalLM(config), LoraConfig(r=4, target_modules=["q_proj", "v_proj"])
)
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-2)
for inputs, _ in batches(6):
    loss = model(input_ids=inputs, labels=inputs).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
