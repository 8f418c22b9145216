"""Tokenizers of Hugging Face in the trainer's terms."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossleuth.reference.train.tokenizer import Ids, Tokenizer
from lossleuth.types.errors import BadInput


class HostTokenizer(Tokenizer):
    """A fast tokenizer of Hugging Face.

    Byte-level ones say which bytes each token stands for; of others bits per byte would be a
    guess, so a *student* must have a byte-level one. A teacher may have any.
    """

    kind = "host"

    def __init__(self, host: Any, vocabulary: int | None = None) -> None:
        if not getattr(host, "is_fast", False):
            raise BadInput(
                "a fast tokenizer (tokenizer.json)",
                f"{type(host).__name__}, which does not say where its tokens lie in a text",
                "convert it with transformers",
            )
        self.host = host
        # The vocabulary may have gaps, and the model be wider than it.
        self._size = vocabulary or len(host)
        marks = [host.eos_token_id, host.bos_token_id, host.pad_token_id, host.sep_token_id]
        known = [mark for mark in marks if mark is not None]
        if not known:
            raise BadInput(
                "a token that ends a text",
                "a tokenizer without eos, bos, pad or sep token",
                "set its eos_token",
            )
        self.end_of_text = known[0]  # type: ignore[misc]  # ours is always 0, theirs is not

    @property
    def size(self) -> int:
        """Tokens in the vocabulary, special ones included."""
        return self._size

    @property
    def unknown(self) -> int | None:
        """Id of the unknown token, if it ever stands for text."""
        unknown = self.host.unk_token_id
        return None if unknown is None or self.is_byte_level else int(unknown)

    @cached_property
    def is_byte_level(self) -> bool:
        """Whether each character of a token stands for one byte."""
        return "ByteLevel" in str(self.host.backend_tokenizer.decoder)

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """Every token as Hugging Face spells it; ids without one get a name of their own."""
        names = {i: name for name, i in self.host.get_vocab().items()}
        return tuple(names.get(i, f"<|no token {i}|>") for i in range(self.size))

    def encode(self, text: str) -> Ids:
        """Token ids of a text, no marks added."""
        return np.array(self._encoded(text).ids, dtype=np.uint32)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Which characters of a text each of its tokens has a part of."""
        return list(self._encoded(text).offsets)

    def _encoded(self, text: str) -> Any:
        return self.host.backend_tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of token ids."""
        return str(self.host.decode(list(ids)))

    @cached_property
    def bytes_per_token(self) -> NDArray[np.int64]:
        """UTF-8 bytes that each token stands for; 0 for special ones."""
        if not self.is_byte_level:
            raise BadInput(
                "a byte-level tokenizer for the student, to count bits per byte",
                f"{type(self.host).__name__}",
                "use a student of GPT-2's, Llama-3's or Qwen's kind, or a new one",
            )
        special = set(self.host.all_special_ids)
        there = set(self.host.get_vocab().values())
        return np.array(
            [
                0 if i in special or i not in there else len(piece)
                for i, piece in enumerate(self.pieces)
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """The definition as Hugging Face writes it."""
        return {"kind": self.kind, "definition": self.host.backend_tokenizer.to_str()}
