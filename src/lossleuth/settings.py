"""Settings that know where each of their values came from.

The fifth founding investigation changed a default that a loader overrode: dead code, seen by
nobody. So a resolved setting is always shown as value **and** source.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from lossleuth.types.errors import BadInput

S = TypeVar("S")

LARGEST_WHOLE = 2**63 - 1
LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Rule:
    """What is documented of one setting, and what its value must obey."""

    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None

    def broken_by(self, value: Any) -> str | None:
        """What was expected, if `value` is not it.

        >>> Rule("steps to train", minimum=1).broken_by(0)
        'a value of at least 1'
        """
        if value is None:
            return None
        if self.choices and value not in self.choices:
            return "one of " + ", ".join(self.choices)
        if self.minimum is not None and not value >= self.minimum:
            return f"a value of at least {self.minimum:g}"
        if self.above is not None and not value > self.above:
            return f"a value above {self.above:g}"
        if self.maximum is not None and not value <= self.maximum:
            return f"a value of at most {self.maximum:g}"
        return None


@dataclass(frozen=True)
class Resolved(Generic[S]):
    """Settings with the source of each value."""

    values: S
    sources: Mapping[str, str]

    def rows(self) -> list[tuple[str, Any, str]]:
        """Name, value and source of every setting, in the order of their definition."""
        return [(n, getattr(self.values, n), s) for n, s in self.sources.items()]


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
) -> Any:
    """A dataclass field with its documentation and its limits.

    >>> @dataclass(frozen=True)
    ... class Example:
    ...     steps: int = setting(10, "steps to train", minimum=1)
    >>> Example().steps
    10
    """
    rule = Rule(help, choices, minimum, above, maximum)
    return dataclasses.field(default=default, metadata={"rule": rule})


def rules(kind: type[Any]) -> dict[str, Rule]:
    """The rule of every setting of a settings class."""
    return {field.name: field.metadata["rule"] for field in dataclasses.fields(kind)}


def option_name(key: str) -> str:
    """How a setting is spelled on the command line.

    >>> option_name("weight_decay")
    '--weight-decay'
    """
    return "--" + key.replace("_", "-")


def resolve(
    kind: type[S],
    *,
    options: Mapping[str, Any],
    file: Path | None = None,
    saved: Mapping[str, Any] | None = None,
) -> Resolved[S]:
    """Take each value from the options, else the TOML file, else a saved run, else the default.

    An option that is None was not given.

    >>> @dataclass(frozen=True)
    ... class Example:
    ...     steps: int = setting(10, "steps to train", minimum=1)
    ...     rate: float = setting(0.5, "learning rate", above=0)
    >>> resolved = resolve(Example, options={"steps": 3, "rate": None})
    >>> resolved.rows()
    [('steps', 3, 'option --steps'), ('rate', 0.5, 'default')]
    """
    known = rules(kind)
    layers: list[tuple[Mapping[str, Any], str]] = [(saved or {}, "checkpoint")]
    if file is not None:
        layers.append((_read_toml(file), f"file {file}"))
    for layer, source in layers:
        _refuse_unknown(layer, known, source)
    given = {key: value for key, value in options.items() if value is not None}
    layers.append((given, "option"))

    values: dict[str, Any] = {}
    sources = dict.fromkeys(known, "default")
    for layer, source in layers:
        for key, value in layer.items():
            shown = f"option {option_name(key)}" if source == "option" else source
            values[key] = _checked(kind, key, value, shown)
            sources[key] = shown
    return Resolved(kind(**values), sources)


def _checked(kind: type[Any], key: str, value: Any, source: str) -> Any:
    """The value in the type of its field, or a refusal that names key and source."""
    wanted = typing.get_type_hints(kind)[key]
    converted, fits = _convert(value, wanted)
    rule = rules(kind)[key]
    remedy = f"change it ({source})"
    if not fits:
        raise BadInput(f"{_type_name(wanted)} for {key}", _shown(value), remedy)
    beyond = _beyond_reach(converted)
    if beyond:
        raise BadInput(f"{beyond} for {key}", _shown(value), f"{remedy}; it means: {rule.help}")
    broken = rule.broken_by(converted)
    if broken:
        raise BadInput(f"{broken} for {key}", _shown(value), remedy)
    return converted


def _beyond_reach(value: Any) -> str | None:
    """What was expected of a value that no checkpoint, file name or tensor can hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return "a finite number"
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "a whole number below 2**63"
    texts = (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ()
    if not all(is_plain_text(text) for text in texts):
        return "text in UTF-8 without NUL"
    return None


def is_utf8(text: str) -> bool:
    r"""Whether a text can be written as UTF-8.

    Arguments that are not UTF-8 reach Python as lone surrogates.

    >>> is_utf8("é"), is_utf8("\udcff")
    (True, False)
    """
    return not any("\ud800" <= mark <= "\udfff" for mark in text)


def is_plain_text(text: str) -> bool:
    r"""Whether a text can name a file: UTF-8 without NUL.

    >>> is_plain_text("é"), is_plain_text("a\0b")
    (True, False)
    """
    return is_utf8(text) and "\0" not in text


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _convert(value: Any, wanted: Any) -> tuple[Any, bool]:
    """`value` as type `wanted`, and whether that is what it means."""
    if isinstance(wanted, types.UnionType):
        if value is None:
            return None, True
        wanted = next(part for part in typing.get_args(wanted) if part is not type(None))
    if typing.get_origin(wanted) is tuple:
        fits = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
        return (tuple(value) if fits else value), fits
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value), True
        except OverflowError:
            # Refused later, as every number that is not finite.
            return math.inf, True
    if wanted is int and isinstance(value, bool):
        return value, False
    return value, isinstance(value, wanted)


def _type_name(wanted: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
    if typing.get_origin(wanted) is tuple:
        return "a list of strings"
    if isinstance(wanted, types.UnionType):
        return _type_name(typing.get_args(wanted)[0])
    return names[wanted]


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise BadInput("a settings file", f"{file}: {error.strerror}", "check --config") from None
    except RecursionError:
        raise BadInput("TOML", f"{file}: nested too deeply", "flatten it") from None
    except ValueError as error:
        # Also what int() says of a number with thousands of digits.
        raise BadInput("TOML", f"{file}: {error}", "correct that line") from None


def _refuse_unknown(layer: Mapping[str, Any], known: Mapping[str, Rule], source: str) -> None:
    """A key that nobody reads is refused, not ignored."""
    for key in layer:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "--help lists them"
            raise BadInput("only known settings", f"{key!r} in the {source}", remedy)
