"""All that was found on one recorded step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from lossleuth.findings.finding import Finding, restored, stored

# Of the stored form. A record of another one is not read.
SCHEMA = 1

F = TypeVar("F", bound=Finding)
# The whole step, its true loss alone, or an evaluation alone.
Part = Literal["tape", "true_loss", "evaluation"]


class OtherSchema(ValueError):
    """Findings were stored by another release of lossleuth."""


@dataclass(frozen=True)
class RecordedStep:
    """A step that was recorded as a tape, with what the probes found on it."""

    step: int
    findings: Sequence[Finding] = ()
    # Probes that failed with an internal error, by name, and the error.
    errored: Mapping[str, str] = field(default_factory=dict)
    # Bytes that the program had printed before the recording and at its end.
    printed: tuple[int, int] | None = None
    # What was examined, which is also the kind of its event in a record.
    part: Part = "tape"

    def all(self, kind: type[F]) -> list[F]:
        """Findings of a kind that were measured."""
        return [f for f in self.findings if isinstance(f, kind) and f.untested is None]

    def first(self, kind: type[F]) -> F | None:
        """The first of them, if there is one."""
        return next(iter(self.all(kind)), None)

    def reasons(self, kind: type[Finding]) -> list[str]:
        """Why findings of a kind could not be measured."""
        return [f.untested for f in self.findings if isinstance(f, kind) and f.untested]

    def only(self, kinds: tuple[type[Finding], ...]) -> RecordedStep:
        """The same with findings of these kinds alone."""
        kept = [f for f in self.findings if isinstance(f, kinds)]
        return replace(self, findings=kept)

    def plain(self) -> dict[str, Any]:
        """As it is stored."""
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "step": self.step,
            "findings": [stored(finding) for finding in self.findings],
        }
        if self.errored:
            found["errored"] = dict(self.errored)
        if self.printed is not None:
            found["printed"] = list(self.printed)
        return found

    @classmethod
    def restored(cls, plain: Mapping[str, Any], part: Part = "tape") -> RecordedStep:
        """From its stored form; OtherSchema or NotOfThisType if it is not that."""
        if plain.get("schema") != SCHEMA:
            raise OtherSchema(f"findings of schema {plain.get('schema')}, not {SCHEMA}")
        found = [restored(finding) for finding in plain.get("findings", ())]
        printed = plain.get("printed")
        return cls(
            int(plain["step"]),
            [finding for finding in found if finding is not None],
            dict(plain.get("errored") or {}),
            None if printed is None else (int(printed[0]), int(printed[1])),
            part,
        )
