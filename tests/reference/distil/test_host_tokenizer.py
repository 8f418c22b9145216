"""Tokenizers of Hugging Face in our terms."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hosts import save_host
from pupil import TEXT

from lossleuth.reference.distil.alignment import text_ends
from lossleuth.reference.distil.host_tokenizer import HostTokenizer
from lossleuth.reference.distil.vocabularies import match_vocabularies
from lossleuth.reference.train.tokenizer import BpeTokenizer
from lossleuth.types.errors import BadInput

transformers = pytest.importorskip("transformers")


def host(folder: Path, spare: int = 0) -> HostTokenizer:
    save_host(folder, [TEXT])
    read = transformers.AutoTokenizer.from_pretrained(folder)
    return HostTokenizer(read, len(read) + spare)


def test_text_comes_back_and_bytes_are_counted(tmp_path: Path) -> None:
    tokenizer = host(tmp_path)
    text = "the far shore, été"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids.tolist()) == text
    assert int(tokenizer.bytes_per_token[ids].sum()) == len(text.encode())
    assert tokenizer.bytes_per_token[tokenizer.end_of_text] == 0
    assert tokenizer.unknown is None and tokenizer.unknown_share(ids) == 0


def test_tokens_end_where_they_say(tmp_path: Path) -> None:
    tokenizer = host(tmp_path)
    ends = text_ends(tokenizer, "sea shells")
    pieces = [tokenizer.decode([i]) for i in tokenizer.encode("sea shells").tolist()]
    assert ends.tolist() == np.cumsum([len(piece) for piece in pieces]).tolist()


def test_the_same_bpe_of_ours_is_matched_token_by_token(tmp_path: Path) -> None:
    tokenizer = host(tmp_path)
    ours = BpeTokenizer((tmp_path / "made.json").read_text())
    assert match_vocabularies(ours, tokenizer, [TEXT]).kind == "exact"


def test_a_model_wider_than_its_tokenizer_has_tokens_without_text(tmp_path: Path) -> None:
    tokenizer = host(tmp_path, spare=2)
    assert tokenizer.size == len(tokenizer.pieces) == len(tokenizer.bytes_per_token)
    assert tokenizer.pieces[-1] == f"<|no token {tokenizer.size - 1}|>"
    assert tokenizer.bytes_per_token[-1] == 0


def test_a_slow_tokenizer_and_one_without_marks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a fast tokenizer"):
        HostTokenizer(SimpleNamespace(is_fast=False))
    bare = host(tmp_path).host
    bare.eos_token = None
    with pytest.raises(BadInput, match="a token that ends a text"):
        HostTokenizer(bare)


def test_bits_per_byte_are_not_guessed(tmp_path: Path) -> None:
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "?": 1, "e": 2}, "?"))
    read = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="e", unk_token="?")
    tokenizer = HostTokenizer(read)
    assert tokenizer.unknown == 1 and not tokenizer.is_byte_level
    with pytest.raises(BadInput, match="a byte-level tokenizer for the student"):
        _ = tokenizer.bytes_per_token
