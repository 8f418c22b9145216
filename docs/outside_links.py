"""A hook of MkDocs: pages of the repository that lie outside `docs/`, and links to its files.

CONTRIBUTING.md and CHANGELOG.md become pages of the site. A link to any other file outside
`docs/` becomes its path as code; one to a file that is not there is a warning, and `make docs`
fails on warnings.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
log = logging.getLogger("mkdocs.hooks.outside_links")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie at the root of the repository."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_as_page(text)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replace links that leave `docs/`."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def replace(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[3]))
        if target.startswith("docs/") or link[1]:
            return link[0]
        if target in PAGES:
            up = posixpath.relpath(posixpath.join("docs", PAGES[target]), folder)
            return f"[{link[2]}]({up}{link[4] or ''})"
        if not (ROOT / target).exists():
            log.warning("%s links to %s, which does not exist", page.file.src_uri, target)
        return f"`{target}`"

    return LINK.sub(replace, markdown)


def _as_page(text: str) -> str:
    """Links of a file at the root, as they are from inside `docs/`."""

    def replace(link: re.Match[str]) -> str:
        inside = link[3].startswith("docs/")
        target = link[3].removeprefix("docs/") if inside else f"../{link[3]}"
        return f"{link[1]}[{link[2]}]({target}{link[4] or ''})"

    return LINK.sub(replace, text)
