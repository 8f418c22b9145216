"""Text files into documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lossleuth.types.errors import BadInput

END_OF_TEXT = "<|endoftext|>"
EMBEDDED = "Python's documentation (pydoc_data.topics)"


@dataclass(frozen=True)
class Corpus:
    """Documents and where they came from."""

    documents: tuple[str, ...]
    source: str

    @property
    def characters(self) -> int:
        """Characters in all documents."""
        return sum(map(len, self.documents))


def read_corpus(paths: Sequence[str | Path]) -> Corpus:
    """Read text files, or the embedded text where there are none, and split documents.

    >>> corpus = read_corpus([])
    >>> len(corpus.documents) > 50 and "The" in corpus.documents[0]
    True
    """
    if not paths:
        from pydoc_data.topics import topics

        return Corpus(tuple(topics[name] for name in sorted(topics)), EMBEDDED)
    documents = [d for path in paths for d in split_documents(read_text(Path(path)))]
    if not documents:
        names = ", ".join(str(path) for path in paths)
        raise BadInput("text", f"only white space in {names}", "give a file with text in it")
    return Corpus(tuple(documents), ", ".join(str(path) for path in paths))


def split_documents(text: str) -> list[str]:
    """The documents between end-of-text marks; blank ones are dropped.

    >>> split_documents("one<|endoftext|>two<|endoftext|>\\n")
    ['one', 'two']
    """
    return [document for document in text.split(END_OF_TEXT) if document.strip()]


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, exactly, or a refusal that says what is wrong with it."""
    expected = "a UTF-8 text file"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(expected, f"{path}: {error.strerror}", "check the path") from None
    if not raw:
        raise BadInput(expected, f"{path} is empty (0 bytes)", "give a file with text in it")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} at offset {error.start} of {path}"
        raise BadInput(expected, found, "convert the file to UTF-8 text") from None
    if "\0" in text:
        found = f"a NUL byte at offset {raw.index(0)} of {path}, as in a binary file"
        raise BadInput(expected, found, "give a text file")
    return text
