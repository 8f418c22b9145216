"""Relative links of every Markdown file lead to a file, and to a heading where they name one."""

from __future__ import annotations

import re
import subprocess
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"!?\[(?:[^\]\\]|\\.)*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


def markdown_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [ROOT / name for name in listed if (ROOT / name).is_file()]


def anchor(heading: str) -> str:
    """The name that a heading is linked by, in MkDocs as on GitHub.

    >>> anchor("What it `means`: a test")
    'what-it-means-a-test'
    """
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def broken(path: Path) -> list[str]:
    """Links of a file that lead nowhere."""
    text = CODE.sub("", FENCED.sub("", path.read_text(encoding="utf-8")))
    found = []
    for target in LINK.findall(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, wanted = target.partition("#")
        aim = (path.parent / name).resolve() if name else path
        if not aim.exists():
            found.append(f"{target}: no such file")
        elif wanted and aim.suffix == ".md":
            source = FENCED.sub("", aim.read_text(encoding="utf-8"))
            if wanted not in {anchor(heading) for heading in HEADING.findall(source)}:
                found.append(f"{target}: no such heading")
    return found


@pytest.mark.parametrize("path", markdown_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    assert broken(path) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# There it is\n\n```\n# no heading\n```\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# Here\n[a](b.md) [b](b.md#there-it-is) [c](https://example.com/x) [d](#here)\n"
        "`[e](gone.md)`\n\n```\n[f](gone.md)\n```\n"
    )
    assert broken(page) == []
    page.write_text("[a](gone.md) ![b](gone.png) [c](b.md#gone) [d](b.md#no-heading) [e](#gone)")
    assert len(broken(page)) == 5
