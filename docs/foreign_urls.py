"""Says what the built site would load from elsewhere: `python docs/foreign_urls.py site`.

Links that a reader may click are no matter; scripts, styles, fonts, pictures and frames are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

FOREIGN = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
# What a browser fetches by itself, by element: the attribute that names it.
LOADED = {
    **dict.fromkeys(("script", "img", "iframe", "embed", "source", "video", "audio"), "src"),
    **{"link": "href", "object": "data", "image": "href", "use": "href"},
}
# A `link` that only describes the page.
DESCRIBING = {"canonical", "alternate", "author", "license", "next", "prev"}
IN_STYLE = re.compile(
    r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)", re.IGNORECASE
)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        self.found += IN_STYLE.findall(known.get("style", ""))
        if tag == "link" and set(known.get("rel", "").split()) <= DESCRIBING:
            return
        addresses = [known.get(LOADED.get(tag, ""), "")]
        addresses += [
            part.split()[0] for part in known.get("srcset", "").split(",") if part.strip()
        ]
        self.found += [address for address in addresses if FOREIGN.match(address)]

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += IN_STYLE.findall(data)


def foreign(path: Path) -> list[str]:
    """Addresses elsewhere that one page or style sheet makes a browser load."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return IN_STYLE.findall(text)
    page = _Page()
    page.feed(text)
    return page.found


def problems(folder: Path) -> Iterator[str]:
    """One sentence for each such address in a built site."""
    pages = sorted(p for p in folder.rglob("*") if p.suffix in (".html", ".css"))
    if not pages:
        yield f"expected a built site in {folder}, found no page: run mkdocs first"
    for path in pages:
        for address in foreign(path):
            yield f"{path.relative_to(folder)} would load {address}"


def main(folder: str) -> int:
    """Print the problems; 1 if there is one."""
    found = list(problems(Path(folder)))
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
