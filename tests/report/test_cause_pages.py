"""Cause pages: made from docstrings, never stale, never orphaned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lossleuth.catalogue import HEADINGS, causes, page
from lossleuth.report.cause_pages import INDEX, MARK, _text, index, pages, rendered, stale, write
from lossleuth.types.cause import Cause
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Stage

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "causes"


def test_the_pages_in_the_repository_are_those_of_the_docstrings() -> None:
    assert stale(DOCS) == [], "run `lossleuth causes --write docs/causes`"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write(tmp_path)
    assert stale(tmp_path) == []
    return tmp_path


def test_an_edited_page_is_seen(written: Path) -> None:
    path = written / "label_offset.md"
    path.write_text(path.read_text() + "More.\n")
    assert stale(written) == ["label_offset.md is stale"]


def test_a_missing_page_is_seen(written: Path) -> None:
    (written / INDEX).unlink()
    assert stale(written) == ["README.md is missing"]


@pytest.mark.parametrize("name", ["bad_luck.md", "notes.txt"])
def test_an_orphan_is_seen(written: Path, name: str) -> None:
    (written / name).write_text("x")
    assert stale(written) == [f"{name} belongs to no cause"]


def test_writing_removes_the_page_of_a_cause_that_is_no_more(written: Path) -> None:
    (written / "bad_luck.md").write_text(f"{MARK}\n")
    (written / "by_hand.md").write_text("mine")
    write(written)
    assert stale(written) == ["by_hand.md belongs to no cause"]


def test_nothing_is_replaced_that_was_not_made_here(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("# My project\n")
    with pytest.raises(BadInput, match="not made here"):
        write(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [INDEX]
    assert (tmp_path / INDEX).read_text() == "# My project\n"


@pytest.mark.parametrize("known", causes(), ids=lambda c: c.id)
def test_a_page_says_all_that_the_docstring_says(known: Cause) -> None:
    text = rendered(known)
    headings = re.findall(r"^## (.*)$", text, re.M)
    assert tuple(headings[: len(HEADINGS)]) == HEADINGS
    plain = [" ".join(t.replace("\\", "").split()) for t in (text, page(known))]
    missing = [part for part in plain[1].split(". ") if _joined(part) not in _joined(plain[0])]
    assert missing == []
    assert f"- **Stage**: {known.stage.value}\n" in text
    assert all(f"`{need}`" in text for need in known.needs_by_name)
    assert all(f"| {limit:g} | {limit.source} |" in text for limit in known.limits)
    assert all(f"[{other}]({other}.md)" in text for other in known.overlaps)


def _joined(text: str) -> str:
    """Words alone: headings carry their marks on the page."""
    return "".join(re.findall(r"\w+", text))


def test_every_link_leads_to_a_file() -> None:
    texts = pages()
    broken = [
        (name, target)
        for name, text in texts.items()
        for target in re.findall(r"\]\(([^)]+)\)", text)
        if target not in texts and not (DOCS / target).resolve().is_file()
    ]
    assert broken == []


def test_the_index_has_every_cause_once_under_its_stage() -> None:
    stages = re.split(r"^## (.*)$", index(causes()), flags=re.M)
    found = {
        (stage.lower(), name)
        for stage, body in zip(stages[1::2], stages[2::2], strict=True)
        for name in re.findall(r"^\| \[(\w+)\]", body, re.M)
    }
    assert found == {(c.stage.value, c.id) for c in causes()}
    order = [list(Stage).index(Stage(stage.lower())) for stage in stages[1::2]]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("plain", "marked"),
    [
        ("log_softmax <b>", r"log\_softmax \<b\>"),
        ("`a_b[0]` and c_d", r"`a_b[0]` and c\_d"),
        ("- 3 of them", r"\- 3 of them"),
        ("12. is a number", r"12\. is a number"),
        ("3 standard errors", "3 standard errors"),
    ],
)
def test_text_stays_text(plain: str, marked: str) -> None:
    assert _text(plain) == marked
