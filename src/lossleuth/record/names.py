"""Names that were recorded, and those that were not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from lossleuth.types.errors import BadInput

_MAX_NAMES_SHOWN = 20
_MAX_CHARACTERS_SHOWN = 80


def refuse_unknown(what: str, name: str, known: Iterable[str]) -> None:
    """BadInput for a name that was never recorded: missing data must not look like a gap.

    >>> try:
    ...     refuse_unknown("scalar", "los", ["loss", "lr"])
    ... except BadInput as refusal:
    ...     print(refusal)
    expected the name of a recorded scalar, found 'los': there are 'loss', 'lr'
    """
    known = known if isinstance(known, dict) else list(known)
    if name in known:
        return
    shown = [_short(other) for other in islice(known, _MAX_NAMES_SHOWN)]
    if len(known) > _MAX_NAMES_SHOWN:
        shown.append(f"and {len(known) - _MAX_NAMES_SHOWN} more")
    there = "there are " + ", ".join(shown) if shown else "there is none in this record"
    raise BadInput(f"the name of a recorded {what}", _short(name), there)


def _short(name: str) -> str:
    return repr(name if len(name) <= _MAX_CHARACTERS_SHOWN else name[:_MAX_CHARACTERS_SHOWN] + "…")


def in_utf8(text: str) -> str:
    """The text with what UTF-8 cannot hold, such as half of a surrogate pair, spelled out.

    >>> in_utf8("caf" + chr(0xDCE9))
    'caf\\\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode()
