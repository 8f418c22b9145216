"""What a run directory says of an examination, so that a saved run is judged as it was.

Records say what was seen. Which of them are one look, which trials counted, why others gave nothing
and how it all ended is written beside them, in `examination.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.files import make_directory, replace_file
from lossleuth.judge.choosing import joined
from lossleuth.judge.judge import Circumstances
from lossleuth.record import strict_json
from lossleuth.run_directory import EXAMINATION, RunDirectory
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.evidence import Evidence
from lossleuth.types.phases import Phase
from lossleuth.types.plain import from_plain, to_plain
from lossleuth.types.yardstick import Yardstick

SCHEMA = 1


@dataclass(frozen=True)
class SavedLook:
    """One look: which folders hold its records, and the trials made on top of it."""

    # Names in the run directory: the look itself, then further steps of the same run.
    folders: Sequence[str]
    cures: Sequence[Change] = ()
    effects: Mapping[Change, Effect] = field(default_factory=dict)
    longer: Mapping[Change, Effect] = field(default_factory=dict)
    failed: Mapping[Change, str] = field(default_factory=dict)
    # The phase of the run that it is a look at, where there are several.
    phase: Phase | None = None
    yardstick: Yardstick | None = None

    def load(self, run: RunDirectory) -> Evidence:
        """The evidence as it was when it was judged; BadInput if a record is missing."""
        first, *others = (evidence_of(run.path / folder) for folder in self.folders)
        for other in others:
            first = joined(first, other)
        if self.phase is not None:
            first = first.of_phase(self.phase)
        return replace(
            first,
            cures=self.cures,
            effects=self.effects,
            longer=self.longer,
            failed=self.failed,
            yardstick=self.yardstick,
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values; numbers may be infinite."""
        failed = [{"change": c.as_json(), "reason": why} for c, why in self.failed.items()]
        return {
            "folders": list(self.folders),
            "cures": [cure.as_json() for cure in self.cures],
            "effects": [effect.as_json() for effect in self.effects.values()],
            "longer": [effect.as_json() for effect in self.longer.values()],
            "failed": failed,
            **({} if self.phase is None else {"phase": list(self.phase)}),
            **({} if self.yardstick is None else {"yardstick": to_plain(self.yardstick)}),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> SavedLook:
        """What `as_json` stored."""
        failed = {Change.from_json(one["change"]): str(one["reason"]) for one in stored["failed"]}
        return cls(
            folders=[str(folder) for folder in stored["folders"]],
            cures=tuple(Change.from_json(cure) for cure in stored["cures"]),
            effects=_by_change(stored["effects"]),
            longer=_by_change(stored["longer"]),
            failed=failed,
            phase=Phase(*map(int, stored["phase"])) if "phase" in stored else None,
            yardstick=from_plain(Yardstick, stored["yardstick"]) if "yardstick" in stored else None,
        )


@dataclass(frozen=True)
class SavedExamination:
    """All looks, and what a judge has to know beside them."""

    looks: Sequence[SavedLook] = ()
    # Ids of the causes that were asked for; all where none is named.
    only: Sequence[str] = ()
    circumstances: Circumstances = field(default_factory=Circumstances)
    # Seconds from the first training step to the first proof, where one was made on the way.
    first_proof: float | None = None

    def write(self, run: RunDirectory) -> None:
        """Write `examination.json`, whole or not at all."""
        stored = {
            "schema": SCHEMA,
            "only": list(self.only),
            "by_hand": self.circumstances.by_hand,
            "interrupted": self.circumstances.interrupted,
            "first_proof": self.first_proof,
            "looks": [look.as_json() for look in self.looks],
        }
        make_directory(run.path)
        with replace_file(run.examination) as stream:
            stream.write(strict_json.dumps(stored).encode())

    @classmethod
    def read(cls, run: RunDirectory) -> SavedExamination | None:
        """What was written; None if nothing was, BadInput if it cannot be read."""
        try:
            text = run.examination.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise _unreadable(run, str(error)) from None
        try:
            stored = json.loads(text)
            if stored["schema"] != SCHEMA:
                raise _unreadable(run, f"schema {stored['schema']}")
            return cls(
                looks=[SavedLook.from_json(look) for look in stored["looks"]],
                only=[str(identifier) for identifier in stored["only"]],
                circumstances=Circumstances(
                    by_hand=bool(stored["by_hand"]), interrupted=bool(stored["interrupted"])
                ),
                # Older files have none.
                first_proof=stored.get("first_proof"),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _unreadable(run, "another kind of file") from None


def _unreadable(run: RunDirectory, found: str) -> BadInput:
    return BadInput(
        f"an {EXAMINATION} of schema {SCHEMA}",
        f"{found} at {run.examination}",
        "remove it to have the records judged alone",
    )


def _by_change(stored: Sequence[Mapping[str, Any]]) -> dict[Change, Effect]:
    effects = [Effect.from_json(one) for one in stored]
    return {effect.change: effect for effect in effects}
