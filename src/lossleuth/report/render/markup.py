"""HTML as strings that cannot be broken by what stands in them: every text is escaped here."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable

# Marks that turn the direction of writing, with which a name can look like another one.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Text as HTML; what is `Markup` stays as it is.

    >>> escaped("<img onerror=x>")
    '&lt;img onerror=x&gt;'
    """
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(visible(str(text)), quote=True))


def visible(text: str) -> str:
    """Without characters that command a terminal or turn the direction; each shown as its number.

    >>> visible("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    return "".join(c if _is_plain(c) else c.encode("unicode_escape").decode() for c in text)


def _is_plain(character: str) -> bool:
    if character in "\n\t":
        return True
    category = unicodedata.category(character)
    return character not in _TURNING and category not in ("Cc", "Cs", "Co", "Cn")


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element; attributes that are None are left out, a trailing underscore is dropped.

    >>> tag("p", "1 < 2", class_="wide")
    '<p class="wide">1 &lt; 2</p>'
    """
    return Markup(f"<{name}{_written(attributes)}>{joined(inside)}</{name}>")


def void(name: str, /, **attributes: object) -> Markup:
    """An element with nothing inside.

    >>> void("meta", charset="utf-8")
    '<meta charset="utf-8">'
    """
    return Markup(f"<{name}{_written(attributes)}>")


def closed(name: str, /, **attributes: object) -> Markup:
    """An element of a picture with nothing inside; unlike those of HTML, they have to be closed.

    >>> closed("circle", r=3)
    '<circle r="3"/>'
    """
    return Markup(f"<{name}{_written(attributes)}/>")


def joined(parts: Iterable[object]) -> Markup:
    """One after the other, each escaped."""
    return Markup("".join(escaped(part) for part in parts))


def _written(attributes: dict[str, object]) -> str:
    return "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
