"""Text to token ids and back: characters, words, or byte-level BPE.

Id 0 is always the end-of-text mark. Characters and words have an unknown token with id 1, which
is *emitted* for what the vocabulary lacks; byte-level BPE lacks nothing.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lossleuth.reference.train.corpus import END_OF_TEXT
from lossleuth.settings import is_utf8
from lossleuth.types.errors import BadInput

UNKNOWN = "<|unknown|>"
SPECIALS = (END_OF_TEXT, UNKNOWN)
DEFAULT_BPE_SIZE = 1024

# A partition of any text: words and marks keep the space before them, white space stands alone.
WORDS = re.compile(r" ?\w+| ?[^\w\s]+|\s+(?!\S)|\s")

Ids = NDArray[np.uint32]


class Tokenizer(ABC):
    """What every tokenizer can do."""

    kind: ClassVar[str]
    end_of_text: ClassVar[int] = 0

    @property
    @abstractmethod
    def size(self) -> int:
        """Tokens in the vocabulary, special ones included."""

    @property
    @abstractmethod
    def unknown(self) -> int | None:
        """Id of the unknown token, if there is one."""

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """Token ids of a text."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Text of token ids."""

    @cached_property
    @abstractmethod
    def bytes_per_token(self) -> NDArray[np.int64]:
        """UTF-8 bytes that each token stands for; 0 for special ones."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What `load_tokenizer` needs to make this tokenizer again."""

    def unknown_share(self, ids: Ids | NDArray[np.uint16]) -> float:
        """Share of tokens that the vocabulary lacks."""
        if self.unknown is None or not len(ids):
            return 0.0
        return float(np.mean(ids == self.unknown))


class _ListTokenizer(Tokenizer):
    """A tokenizer whose vocabulary is a list of pieces of text."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = (*SPECIALS, *pieces)

    @property
    def size(self) -> int:
        return len(self.pieces)

    @property
    def unknown(self) -> int:
        return 1

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.pieces[i] for i in ids)

    @cached_property
    def bytes_per_token(self) -> NDArray[np.int64]:
        ordinary = self.pieces[len(SPECIALS) :]
        return np.array([0] * len(SPECIALS) + [len(piece.encode()) for piece in ordinary])

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "pieces": list(self.pieces[len(SPECIALS) :])}


class CharTokenizer(_ListTokenizer):
    """One token per character.

    >>> tokenizer = CharTokenizer("abc")
    >>> tokenizer.encode("cab?").tolist(), tokenizer.decode([4, 2])
    ([4, 2, 3, 1], 'ca')
    """

    kind = "char"

    @cached_property
    def _table(self) -> Ids:
        points = [ord(piece) for piece in self.pieces[len(SPECIALS) :]]
        table = np.full(max(points, default=0) + 2, self.unknown, dtype=np.uint32)
        table[points] = np.arange(len(SPECIALS), self.size, dtype=np.uint32)
        return table

    def encode(self, text: str) -> Ids:
        """One id per character, by a table from code points to ids."""
        points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        # The table's last entry stands for every character past the vocabulary's highest.
        ids: Ids = self._table[np.minimum(points, len(self._table) - 1)]
        return ids


class WordTokenizer(_ListTokenizer):
    """One token per word, mark or white space.

    >>> tokenizer = WordTokenizer(["The", " cat", "."])
    >>> tokenizer.decode(tokenizer.encode("The cat sat."))
    'The cat<|unknown|>.'
    """

    kind = "word"

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces) if i >= len(SPECIALS)}

    def encode(self, text: str) -> Ids:
        """One id per piece of the partition `WORDS`."""
        ids, unknown = self._ids, self.unknown
        return np.array([ids.get(word, unknown) for word in WORDS.findall(text)], dtype=np.uint32)


class BpeTokenizer(Tokenizer):
    """Byte-level byte-pair encoding through Hugging Face `tokenizers`."""

    kind = "bpe"

    def __init__(self, definition: str) -> None:
        self._tokenizer = _bpe_from(definition)

    @property
    def size(self) -> int:
        """Tokens in the vocabulary: the mark, 256 bytes, and what was merged."""
        return int(self._tokenizer.get_vocab_size())

    @property
    def unknown(self) -> None:
        """Bytes leave nothing unknown."""
        return None

    def encode(self, text: str) -> Ids:
        """Ids of the merged pieces."""
        return np.array(self._tokenizer.encode(text).ids, dtype=np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the pieces' bytes; bytes that are no text become replacement characters."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """Every token as Hugging Face spells it, a character for each byte."""
        return tuple(self._tokenizer.id_to_token(i) for i in range(self.size))

    @cached_property
    def bytes_per_token(self) -> NDArray[np.int64]:
        """Each character of a byte-level piece stands for one byte."""
        return np.array([0, *map(len, self.pieces[1:])])

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Which characters of a text each of its tokens has a byte of."""
        return list(self._tokenizer.encode(text).offsets)

    def to_json(self) -> dict[str, Any]:
        """The definition as Hugging Face writes it."""
        return {"kind": self.kind, "definition": self._tokenizer.to_str()}


def build_tokenizer(kind: str, documents: Sequence[str], size: int | None) -> Tokenizer:
    """Make a vocabulary from documents.

    Without a size, characters are all kept, words are kept from the second occurrence on (so
    that the unknown token is trained too), and BPE learns 1 024 tokens.

    >>> build_tokenizer("char", ["abca"], None).pieces[2:]
    ('a', 'b', 'c')
    >>> build_tokenizer("word", ["a a b"], 3).pieces[2:]
    (' a',)
    """
    if kind == "bpe":
        return _train_bpe(documents, DEFAULT_BPE_SIZE if size is None else size)
    counts: Counter[str] = Counter()
    for document in documents:
        counts.update(document if kind == "char" else WORDS.findall(document))
    if size is None:
        kept = [piece for piece, n in counts.items() if kind == "char" or n > 1]
    else:
        _check_size(size, len(SPECIALS) + 1, len(SPECIALS) + len(counts), kind)
        ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
        kept = ranked[: size - len(SPECIALS)]
    # Sorted, so that ids do not depend on the order in which the data was read.
    return (CharTokenizer if kind == "char" else WordTokenizer)(sorted(kept))


def load_tokenizer(saved: Mapping[str, Any]) -> Tokenizer:
    """Make a tokenizer again from what its `to_json` gave, or say what is wrong with that.

    >>> load_tokenizer(CharTokenizer("ab").to_json()).size
    4
    """
    kind = saved.get("kind")
    if kind == "bpe":
        return BpeTokenizer(saved.get("definition", ""))
    pieces = saved.get("pieces")
    if kind not in ("char", "word") or not isinstance(pieces, list):
        raise _no_tokenizer(f"the kind {kind!r} with pieces {_shortened(pieces)}")
    for piece in pieces:
        if not isinstance(piece, str) or not is_utf8(piece) or not piece:
            raise _no_tokenizer(f"the {kind} piece {_shortened(piece)}")
        if kind == "char" and len(piece) != 1:
            raise _no_tokenizer(f"{len(piece)} characters in the char piece {_shortened(piece)}")
    if len(set(pieces)) != len(pieces):
        raise _no_tokenizer(f"a {kind} piece that is there twice")
    return (CharTokenizer if kind == "char" else WordTokenizer)(pieces)


def _bpe_from(definition: Any) -> Any:
    """Hugging Face's tokenizer, if the definition is one with our end-of-text mark."""
    tokenizers = _tokenizers()
    if not isinstance(definition, str):
        raise _no_tokenizer(f"the BPE definition {_shortened(definition)}")
    try:
        made = tokenizers.Tokenizer.from_str(definition)
    except Exception as error:
        # Hugging Face raises bare Exception for a bad definition; anything else is ours.
        if type(error) is not Exception:
            raise
        raise _no_tokenizer(f"a BPE definition that is none ({error})") from None
    ids = sorted(made.get_vocab().values())
    if made.token_to_id(END_OF_TEXT) != 0 or ids != list(range(len(ids))):
        raise _no_tokenizer(f"a BPE vocabulary without {END_OF_TEXT} as token 0, or with gaps")
    return made


def _no_tokenizer(found: str) -> BadInput:
    return BadInput("a tokenizer in the checkpoint", found, "use one that `lossleuth train` wrote")


def _shortened(value: Any) -> str:
    return repr(value)[:40]


def _train_bpe(documents: Sequence[str], size: int) -> BpeTokenizer:
    tokenizers = _tokenizers()
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    alphabet = byte_level.alphabet()
    least = len(alphabet) + 1
    if size < least:
        _check_size(size, least, None, "bpe")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    # Every merge joins two tokens at least once, so the bytes bound their number. Hugging Face
    # sets aside memory for all that is asked for before it looks at the text.
    most = least + sum(len(document.encode()) for document in documents)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=min(size, most),
        special_tokens=[END_OF_TEXT],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    _check_size(size, least, tokenizer.get_vocab_size(), "bpe")
    return BpeTokenizer(tokenizer.to_str())


def _check_size(size: int, least: int, most: int | None, kind: str) -> None:
    if size < least or (most is not None and size > most):
        span = f"{least} or more" if most is None else f"{least} to {most}"
        raise BadInput(
            f"a {kind} vocabulary of {span} tokens for this data",
            f"{size}",
            "change --vocab-size",
        )


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise BadInput(
            "the package tokenizers for --tokenizer bpe",
            "that it is not installed",
            "pip install 'lossleuth[bpe]', or use --tokenizer char or word",
        ) from None
    return tokenizers
