"""The documentation site: what it would load from elsewhere is seen, and every page has a place."""

from __future__ import annotations

import re
from pathlib import Path

import docs_scripts
import pytest

foreign_urls = docs_scripts.load("foreign_urls")
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "planted",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img src="http://example/x.png">',
        '<img srcset="a.png 1x, https://example/b.png 2x">',
        '<iframe src="https://example/"></iframe>',
        "<style>@import 'https://example/a.css';</style>",
        '<p style="background: url(https://example/a.png)">x</p>',
    ],
)
def test_what_would_be_loaded_from_elsewhere_is_seen(tmp_path: Path, planted: str) -> None:
    (tmp_path / "index.html").write_text(f"<html><body>{planted}</body></html>")
    assert len(list(foreign_urls.problems(tmp_path))) == 1
    assert foreign_urls.main(str(tmp_path)) == 1


def test_a_foreign_address_in_a_style_sheet_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("p { background: url('https://example/a.png') }")
    assert len(list(foreign_urls.problems(tmp_path))) == 1


def test_links_to_click_and_files_of_its_own_are_fine(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<link rel="canonical" href="https://example/"><a href="https://example/">x</a>'
        '<script src="assets/x.js"></script><img src="data:image/png;base64,AA">'
    )
    (tmp_path / "a.css").write_text("p { background: url('a.png') }")
    assert foreign_urls.main(str(tmp_path)) == 0


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert foreign_urls.main(str(tmp_path)) == 1


def test_every_page_is_in_the_menu_or_below_one_that_is() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w./-]+\.md", menu))
    listed_elsewhere = {ROOT / "docs" / folder for folder in ("causes", "decisions")}
    pages = [p for p in (ROOT / "docs").rglob("*.md") if p.parent not in listed_elsewhere]
    missing = {p.relative_to(ROOT / "docs").as_posix() for p in pages} - named
    assert missing == set()


def test_every_decision_has_its_heading_and_a_line_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for path in sorted(folder.glob("[0-9]*.md")):
        number, title = path.name[:4], path.read_text(encoding="utf-8").partition("\n")[0]
        assert title.startswith(f"# {number} \N{EN DASH} "), path.name
        assert f"| {number} | [{title[9:]}]({path.name}) |" in index, path.name
