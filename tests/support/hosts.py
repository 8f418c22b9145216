"""Tiny models of Hugging Face, saved to a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

SIZE = 270


def save_host(folder: Path, texts: list[str], *, size: int = SIZE, spare: int = 0) -> Path:
    """A GPT-2 of a few thousand weights and a byte-level tokenizer fitted on the texts."""
    transformers = pytest.importorskip("transformers")
    import tokenizers
    import torch

    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(texts, size, special_tokens=["<|endoftext|>"], show_progress=False)
    made.save(str(folder / "made.json"))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "made.json"), eos_token="<|endoftext|>"
    )
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer) + spare, n_positions=32, n_embd=16, n_layer=2, n_head=2
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
