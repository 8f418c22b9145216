"""A small model of transformers, of the family that is named, trained by a loop."""

import sys

import torch
from tiny import CONTEXT, VOCABULARY, batches
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 2 * CONTEXT,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
}
GROUPED = SIZES | {"num_key_value_heads": 1, "head_dim": 12}
FAMILIES = {
    "gpt2": {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_embd": 24, "n_layer": 2}
    | {"n_head": 2, "bos_token_id": 0, "eos_token_id": 0},
    "llama": GROUPED,
    "mistral": GROUPED | {"sliding_window": 8},
    "mixtral": GROUPED | {"num_local_experts": 4, "output_router_logits": True},
    "qwen3": GROUPED,
    "gemma": GROUPED,
    "phi": SIZES,
    "gpt_neox": SIZES,
    "opt": SIZES | {"ffn_dim": 48, "word_embed_proj_dim": 24, "pad_token_id": 1},
    "bloom": {"vocab_size": VOCABULARY, "hidden_size": 24, "n_layer": 2, "n_head": 2},
    "mamba": {"vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2}
    | {"state_size": 4, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0},
    "t5": {"vocab_size": VOCABULARY, "d_model": 24, "d_kv": 12, "d_ff": 48, "num_layers": 2}
    | {"num_heads": 2, "decoder_start_token_id": 0, "pad_token_id": 0},
}

torch.manual_seed(0)
family = sys.argv[1]
config = AutoConfig.for_model(family, **FAMILIES[family])
kind = AutoModelForSeq2SeqLM if family == "t5" else AutoModelForCausalLM
model = kind.from_config(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for inputs, targets in batches(6):
    # An encoder reads what comes first, its decoder goes on.
    halves = inputs.view(-1, 2, CONTEXT // 2).unbind(1) if family == "t5" else (inputs, inputs)
    loss = model(input_ids=halves[0], labels=halves[1].contiguous()).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
