"""What is said in the end: the judgements of all causes, sorted, and the file `verdict.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lossleuth.files import replace_file
from lossleuth.record import strict_json, values
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness

SCHEMA = 1
FILE = "verdict.json"
RANK = (Status.PROVEN, Status.SUSPECTED, Status.BENIGN)


@dataclass(frozen=True)
class Verdict:
    """The answer. `status` is proven, suspected, healthy or cannot_tell."""

    status: str
    # The judgement of every cause by its id, in the order of the ladder.
    judgements: Mapping[str, Judgement]
    # The causes that are there, the answer first.
    ranked: Sequence[str]
    steps: int
    seconds: float
    # What was seen of the run as a whole, in plain sentences.
    notes: Sequence[str] = field(default_factory=tuple)

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

    def as_json(self) -> dict[str, Any]:
        """The public form, strict JSON."""
        return {
            "schema": SCHEMA,
            "status": self.status,
            "causes": [_plain_cause(i, self.judgements[i]) for i in self.ranked],
            "refuted": self.of(Status.REFUTED),
            "untested": self.of(Status.UNTESTED),
            "errored": self.of(Status.ERRORED),
            "details": {i: _plain_details(j) for i, j in self.judgements.items()},
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
        }

    def write(self, directory: Path) -> Path:
        """Write `verdict.json`, whole or not at all."""
        path = directory / FILE
        with replace_file(path) as stream:
            stream.write(strict_json.dumps(self.as_json()).encode())
        return path

    @classmethod
    def read(cls, directory: Path) -> Verdict:
        """A verdict as it was written; BadInput if there is none that can be read."""
        path = directory / FILE
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            judgements = {i: _judgement(found) for i, found in known["details"].items()}
            order = [found["id"] for found in known["causes"]]
            status, steps, seconds = known["status"], known["steps"], known["seconds"]
            return cls(str(status), judgements, order, int(steps), float(seconds))
        except OSError:
            found = f"none in {directory}"
        except (ValueError, KeyError, TypeError, AttributeError):
            found = f"another kind of file at {path}"
        raise BadInput(f"a {FILE} of schema {SCHEMA}", found, "make it with `lossleuth examine`")


def ranked(causes: Sequence[Cause], judgements: Mapping[str, Judgement]) -> list[str]:
    """What is there, proven before suspected before benign, earlier stages first."""
    order = list(Stage)
    there = [c for c in causes if judgements[c.id].status in RANK]
    there.sort(key=lambda c: (RANK.index(judgements[c.id].status), order.index(c.stage)))
    return [c.id for c in there]


def status_of(order: Sequence[str], judgements: Mapping[str, Judgement], *, learns: bool) -> str:
    """The whole in one word: healthy only where nothing is there and the run is seen to learn."""
    statuses = {judgements[identifier].status for identifier in order}
    if Status.PROVEN in statuses:
        return "proven"
    if Status.SUSPECTED in statuses:
        return "suspected"
    return "healthy" if learns else "cannot_tell"


def _plain_cause(identifier: str, judgement: Judgement) -> dict[str, Any]:
    where = judgement.where
    return {
        "id": identifier,
        "status": judgement.status.value,
        "because": judgement.because,
        "where": None if where is None else where._asdict(),
        "wrongness": {} if judgement.wrongness is None else _plain(judgement.wrongness._asdict()),
        "harm": None if judgement.harm is None else _plain_harm(judgement.harm),
        "remedy": judgement.remedy,
    }


def _plain_details(judgement: Judgement) -> dict[str, Any]:
    """All that is known of one cause: enough to make the judgement again from it."""
    found: dict[str, Any] = {"status": judgement.status.value, "because": judgement.because}
    if judgement.wrongness is not None:
        found["wrongness"] = _plain(judgement.wrongness._asdict())
    if judgement.harm is not None:
        found["harm"] = _plain_harm(judgement.harm)
    if judgement.where is not None:
        found["where"] = judgement.where._asdict()
    if judgement.remedy:
        found["remedy"] = judgement.remedy
    if judgement.cure is not None:
        found["cure"] = judgement.cure.sentence
    return found


def _judgement(known: Mapping[str, Any]) -> Judgement:
    """What `_plain_details` wrote."""
    where, wrongness, harm = (known.get(name) for name in ("where", "wrongness", "harm"))
    return Judgement(
        Status(known["status"]),
        str(known["because"]),
        None if where is None else Where(**where),
        None if wrongness is None else Wrongness(**values.restore(wrongness)),
        None if harm is None else Effect(**values.restore(harm | _change(harm))),
        str(known.get("remedy", "")),
        cure=Change.told(known["cure"]) if "cure" in known else None,
    )


def _change(harm: Mapping[str, Any]) -> dict[str, Change]:
    return {"change": Change.told(harm["change"])}


def _plain_harm(harm: Effect) -> dict[str, Any]:
    return _plain(harm._asdict() | {"change": harm.change.sentence})


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Strict JSON has no infinity: it is written as a word."""
    return dict(json.loads(strict_json.dumps(fields)))
