"""What is said in the end: the judgements of all causes, sorted, and the file `verdict.json`.

What the file holds of a judgement follows from its fields, as does what assistants are promised
(`agents.answers`): a field is written once, in `types`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

from lossleuth.files import replace_file
from lossleuth.judge.gain import Gain
from lossleuth.judge.reach import Reach
from lossleuth.judge.yardstick import Comparison
from lossleuth.record import strict_json, values
from lossleuth.run_directory import VERDICT, RunDirectory
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Judgement, Status, Where, Wrongness
from lossleuth.types.phases import Phase

SCHEMA = 1
# Fields of a judgement that are no part of a verdict, and those that stand only in its details.
INTERNAL = frozenset(("trials_wanted",))
ONLY_IN_DETAILS = frozenset(("cure", "cure_intervention"))

VerdictStatus = Literal["proven", "suspected", "healthy", "cannot_tell"]


class VerdictFile(TypedDict):
    """The file verdict.json."""

    schema: int
    """Version of this form."""
    status: VerdictStatus
    """The answer; healthy only where nothing is there and the run is seen to learn."""
    causes: list[dict[str, Any]]
    """What is there, the answer first: proven before suspected before benign."""
    refuted: list[str]
    """Ids of causes that were tested and are not there."""
    untested: list[str]
    """Ids of causes that could not be tested."""
    errored: list[str]
    """Ids of causes whose judge failed."""
    details: dict[str, dict[str, Any]]
    """The judgement of every cause, by its id; fields that do not apply are left out."""
    notes: list[str]
    """What was seen of the run as a whole, in plain sentences."""
    steps: int
    """Steps that were observed."""
    seconds: float
    """How long the examination took; 0 where a saved run was judged."""
    seen_to_end: bool | None
    """Whether the script came to its own end while it was observed; null if that is not known."""
    planned_steps: int | None
    """Steps that a schedule of the script is made for, if that is known and more than were seen."""
    phases: list[dict[str, Any]]
    """Things that are trained one after another: number, steps, status and causes; mostly none."""
    headroom: list[dict[str, Any]]
    """Changes with which the run does better beyond doubt: a trial each, and what it may mean."""
    yardstick: dict[str, Any] | None
    """The run and references that trained on the very same batches; null where there are none."""


@dataclass(frozen=True)
class PhaseVerdict:
    """What is said of one of several phases."""

    phase: Phase
    status: VerdictStatus
    # The judgement of every cause; of a saved verdict, of those that are there.
    judgements: Mapping[str, Judgement]
    ranked: Sequence[str]
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            **self.phase._asdict(),
            "status": self.status,
            "causes": [_plain_cause(i, self.judgements[i]) for i in self.ranked],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Verdict:
    """The answer. `status` is proven, suspected, healthy or cannot_tell."""

    status: VerdictStatus
    # The judgement of every cause by its id, in the order of the ladder.
    judgements: Mapping[str, Judgement]
    # The causes that are there, the answer first.
    ranked: Sequence[str]
    steps: int
    seconds: float
    # What was seen of the run as a whole, in plain sentences.
    notes: Sequence[str] = field(default_factory=tuple)
    # How much of the run was seen.
    reach: Reach = field(default_factory=Reach)
    # Of a script that trains several things one after another, what is said of each.
    phases: Sequence[PhaseVerdict] = ()
    # Challenges with which the run does better.
    headroom: Sequence[Gain] = ()
    # References on the very batches of the run; of several phases, where it is furthest behind.
    yardstick: Comparison | None = None

    @property
    def exit_code(self) -> int:
        """1 where a cause is proven or suspected, else 0."""
        return 1 if self.status in ("proven", "suspected") else 0

    def reasons(self, status: Status) -> list[tuple[list[str], str]]:
        """The causes of that status by their reason: those that share one stand together."""
        found: dict[str, list[str]] = {}
        for identifier in self.of(status):
            found.setdefault(self.judgements[identifier].because, []).append(identifier)
        return [(names, because) for because, names in found.items()]

    def of(self, status: Status) -> list[str]:
        """The causes of that status."""
        return [i for i, j in self.judgements.items() if j.status is status]

    def as_json(self) -> VerdictFile:
        """The public form, strict JSON."""
        return {
            "schema": SCHEMA,
            "status": self.status,
            "causes": [_plain_cause(i, self.judgements[i]) for i in self.ranked],
            "refuted": self.of(Status.REFUTED),
            "untested": self.of(Status.UNTESTED),
            "errored": self.of(Status.ERRORED),
            "details": {i: _plain_details(j) for i, j in self.judgements.items()},
            "notes": list(self.notes),
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "seen_to_end": self.reach.to_end,
            "planned_steps": self.reach.planned,
            "phases": [part.as_json() for part in self.phases],
            "headroom": [_plain(gain.as_json()) for gain in self.headroom],
            "yardstick": None if self.yardstick is None else _plain(self.yardstick.as_json()),
        }

    def write(self, directory: Path) -> Path:
        """Write `verdict.json`, whole or not at all."""
        path = RunDirectory(directory).verdict
        with replace_file(path) as stream:
            stream.write(strict_json.dumps(self.as_json()).encode())
        return path

    @classmethod
    def read(cls, directory: Path) -> Verdict:
        """A verdict as it was written; BadInput if there is none that can be read."""
        path = RunDirectory(directory).verdict
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            if known["schema"] == SCHEMA and known["status"] in get_args(VerdictStatus):
                return cls(
                    status=known["status"],
                    judgements={i: _judgement(found) for i, found in known["details"].items()},
                    ranked=[found["id"] for found in known["causes"]],
                    steps=int(known["steps"]),
                    seconds=float(known["seconds"]),
                    notes=tuple(map(str, known["notes"])),
                    reach=Reach(known.get("seen_to_end"), known.get("planned_steps")),
                    phases=tuple(_phase(part) for part in known.get("phases", ())),
                    headroom=tuple(Gain.from_json(gain) for gain in known.get("headroom", ())),
                    yardstick=_comparison(known.get("yardstick")),
                )
            found = f"schema {known['schema']}, status {known['status']} in {path}"
        except OSError:
            found = f"none in {directory}"
        except (ValueError, KeyError, TypeError, AttributeError):
            found = f"another kind of file at {path}"
        raise BadInput(f"a {VERDICT} of schema {SCHEMA}", found, "make it with `lossleuth rejudge`")


def _plain_cause(identifier: str, judgement: Judgement) -> dict[str, Any]:
    """A cause that is there: all fields, whatever is known."""
    found = {k: v for k, v in _plain_fields(judgement).items() if k not in ONLY_IN_DETAILS}
    return {"id": identifier, **found, "wrongness": found["wrongness"] or {}}


def _plain_details(judgement: Judgement) -> dict[str, Any]:
    """Fields that apply: enough to make the judgement again from them."""
    return {k: v for k, v in _plain_fields(judgement).items() if v not in (None, "")}


def _plain_fields(judgement: Judgement) -> dict[str, Any]:
    names = [f.name for f in fields(judgement) if f.name not in INTERNAL]
    found = {name: _plain(getattr(judgement, name)) for name in names}
    # A sentence for people, and what it is for programs.
    cure = judgement.cure
    sentence = {"cure": None if cure is None else cure.sentence}
    return found | sentence | {"cure_intervention": found["cure"]}


def _plain(value: Any) -> Any:
    """Strict JSON has no infinity: it is written as a word."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Change | Effect):
        value = value.as_json()
    elif isinstance(value, Where | Wrongness | Phase):
        value = value._asdict()
    return json.loads(strict_json.dumps(value))


def _comparison(known: Mapping[str, Any] | None) -> Comparison | None:
    return None if known is None else Comparison.from_json(values.restore(known))


def _phase(known: Mapping[str, Any]) -> PhaseVerdict:
    """What `PhaseVerdict.as_json` wrote, as far as it is shown."""
    found = {cause["id"]: _judgement(cause) for cause in known["causes"]}
    phase = Phase(*(int(known[name]) for name in Phase._fields))
    return PhaseVerdict(phase, known["status"], found, list(found), tuple(known["notes"]))


def _judgement(known: Mapping[str, Any]) -> Judgement:
    """What `_plain_details` wrote."""
    where, wrongness, harm, cure, phase = (
        known.get(name) or None
        for name in ("where", "wrongness", "harm", "cure_intervention", "phase")
    )
    return Judgement(
        status=Status(known["status"]),
        because=str(known["because"]),
        where=None if where is None else Where(**where),
        wrongness=None if wrongness is None else Wrongness(**values.restore(wrongness)),
        harm=None if harm is None else Effect.from_json(harm),
        remedy=str(known.get("remedy", "")),
        cure=None if cure is None else Change.from_json(cure),
        phase=None if phase is None else Phase(**phase),
    )
