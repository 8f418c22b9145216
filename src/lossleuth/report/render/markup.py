"""Build HTML from strings; every text is escaped here."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable

# Marks that change the writing direction, with which a name can look like another one.
_DIRECTION_MARKS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


class Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Text as HTML; `Markup` stays as it is.

    >>> escaped("<img onerror=x>")
    '&lt;img onerror=x&gt;'
    """
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(visible(str(text)), quote=True))


def visible(text: str) -> str:
    """Show control characters and direction marks as their codes.

    >>> visible("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    return "".join(c if _is_plain(c) else c.encode("unicode_escape").decode() for c in text)


def _is_plain(character: str) -> bool:
    if character in "\n\t":
        return True
    category = unicodedata.category(character)
    return character not in _DIRECTION_MARKS and category not in ("Cc", "Cs", "Co", "Cn")


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element; attributes that are None are left out, trailing underscores dropped.

    >>> tag("p", "1 < 2", class_="wide")
    '<p class="wide">1 &lt; 2</p>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{joined(inside)}</{name}>")


def void(name: str, /, **attributes: object) -> Markup:
    """An empty HTML element.

    >>> void("meta", charset="utf-8")
    '<meta charset="utf-8">'
    """
    return Markup(f"<{name}{_attributes(attributes)}>")


def closed(name: str, /, **attributes: object) -> Markup:
    """An empty SVG element; unlike those of HTML, it has to be closed.

    >>> closed("circle", r=3)
    '<circle r="3"/>'
    """
    return Markup(f"<{name}{_attributes(attributes)}/>")


def joined(parts: Iterable[object]) -> Markup:
    """Concatenate parts, each escaped."""
    return Markup("".join(escaped(part) for part in parts))


def _attributes(attributes: dict[str, object]) -> str:
    return "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
