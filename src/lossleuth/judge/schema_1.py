"""Verdicts of schema 1, in which a change stands as a sentence: brought to the form of today.

Such a sentence does not say where an option ends, nor of which kind it is. The options that were
written at that time, numbers and single words, can be read all the same.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any


def upgraded(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict of schema 1 as one of schema 2; notes were not written then."""
    details = {i: _upgraded_judgement(found) for i, found in verdict["details"].items()}
    causes = [_upgraded_judgement(found) for found in verdict["causes"]]
    return {**verdict, "schema": 2, "causes": causes, "details": details, "notes": []}


def _upgraded_judgement(known: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(known)
    if found.get("harm"):
        found["harm"] = found["harm"] | {"change": change_in(found["harm"]["change"])}
    if found.get("cure"):
        found["cure"] = change_in(found["cure"])
    return found


def change_in(sentence: str) -> dict[str, Any]:
    """The name and the options in a sentence.

    >>> change_in("use_rule(factor=0.1, rule=AdamW)")
    {'name': 'use_rule', 'options': {'factor': 0.1, 'rule': 'AdamW'}}
    """
    name, _, inside = sentence.removesuffix(")").partition("(")
    parts = [part.partition("=") for part in inside.split(", ") if part]
    return {"name": name, "options": {key: _value(text) for key, _, text in parts}}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
