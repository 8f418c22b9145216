"""Reading text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.reference.train.corpus import EMBEDDED, END_OF_TEXT, read_corpus, split_documents
from lossleuth.types.errors import BadInput


def test_without_files_the_embedded_text_is_read() -> None:
    corpus = read_corpus([])
    assert corpus.source == EMBEDDED
    assert corpus.characters > 300_000


def test_documents_end_at_the_mark_and_at_the_end_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"one{END_OF_TEXT}two")
    (tmp_path / "b.txt").write_text("three\r\n", newline="")
    corpus = read_corpus([tmp_path / "a.txt", tmp_path / "b.txt"])
    assert corpus.documents == ("one", "two", "three\r\n")


@given(st.lists(st.text(min_size=1).filter(lambda t: t.strip() and "<" not in t), max_size=5))
def test_splitting_takes_apart_what_joining_made(documents: list[str]) -> None:
    assert split_documents(END_OF_TEXT.join(documents)) == documents


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b" \n\t", "only white space"),
        (b"text\xff\xfe", "byte 0xff at offset 4"),
        (b"PK\x03\x04\x00\x00", "a NUL byte at offset 4"),
        (END_OF_TEXT.encode() * 3, "only white space"),
    ],
)
def test_a_file_that_is_no_text_is_refused_with_the_reason(
    tmp_path: Path, content: bytes | None, found: str
) -> None:
    path = tmp_path / "data.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=found):
        read_corpus([path])


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Is a directory"):
        read_corpus([tmp_path])
