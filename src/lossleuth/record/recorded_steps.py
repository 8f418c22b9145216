"""Findings of the recorded steps of a run, from its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from lossleuth.findings.recorded_step import OtherSchema, Part, RecordedStep
from lossleuth.record.read import Event, Record
from lossleuth.types.errors import BadInput
from lossleuth.types.plain import NotOfThisType

PARTS: tuple[Part, ...] = get_args(Part)


def recorded_steps(record: Record, parts: Sequence[Part] = PARTS) -> list[RecordedStep]:
    """All recorded steps in the order of the run; BadInput if another release has stored them."""
    return restored_steps(record.events(), parts)


def restored_steps(events: Sequence[Event], parts: Sequence[Part] = PARTS) -> list[RecordedStep]:
    """The recorded steps among the events of a record."""
    try:
        return [
            RecordedStep.restored(event.data, part)
            for event in events
            for part in parts
            if event.kind == part
        ]
    except (OtherSchema, NotOfThisType, KeyError, TypeError, ValueError) as error:
        raise BadInput(
            "findings of this release of lossleuth",
            f"others ({error})",
            "run the script again with this release, or read the run with the one that made it",
        ) from None
