"""A hook of MkDocs: pages and links outside `docs/`, and no script from a network.

CONTRIBUTING.md and CHANGELOG.md become pages of the site. A link to any other file outside
`docs/` becomes its path as code; one to a file that is not there is a warning, and `make docs`
fails on warnings. The one script that Material would fetch from a network, so that the search works
on pages opened from disk, is replaced by ours.
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
COMMENT = re.compile(r"\A\s*<!--.*?-->\s*", re.DOTALL)
FETCHED = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
log = logging.getLogger("mkdocs.hooks.outside_links")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie at the root of the repository."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_as_page(text)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replace links that leave `docs/`, and drop the note about who wrote a page."""
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

    # A page that begins with a comment would be called by its file's name.
    return LINK.sub(replace, COMMENT.sub("", markdown))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Take the script that stands in for workers from the site itself."""
    up = posixpath.relpath("assets/file_worker.js", posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace(FETCHED, f'<script src="{up}"></script>')


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for the page that says that there is no such page."""
    return output_content.replace(FETCHED, '<script src="assets/file_worker.js"></script>')


def _as_page(text: str) -> str:
    """Links of a file at the root, as they are from inside `docs/`."""

    def replace(link: re.Match[str]) -> str:
        inside = link[3].startswith("docs/")
        target = link[3].removeprefix("docs/") if inside else f"../{link[3]}"
        return f"{link[1]}[{link[2]}]({target}{link[4] or ''})"

    return LINK.sub(replace, text)
