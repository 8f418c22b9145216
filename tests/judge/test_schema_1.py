"""Verdicts that were written before."""

from __future__ import annotations

import json
import math
from pathlib import Path

from lossleuth.judge.verdict import Verdict
from lossleuth.run_directory import VERDICT
from lossleuth.types.change import Change

HARM = {
    "change": "use_rule(beta=0.9, rule=AdamW)",
    "nats": "Infinity",
    "error": 0.0,
    "seeds": 3,
    "steps": 40,
    "without": "Infinity",
    "with_change": 2.5,
    "start": 4.0,
    "measure": "true loss",
}
CAUSE = {"status": "proven", "because": "3 is not 1", "harm": HARM}
OLD = {
    "schema": 1,
    "status": "proven",
    "causes": [{"id": "a", **CAUSE, "where": None, "wrongness": {}, "remedy": ""}],
    "refuted": ["b"],
    "untested": [],
    "errored": [],
    "details": {
        "a": {**CAUSE, "cure": "hold_lr()"},
        "b": {"status": "refuted", "because": "0 of 10"},
    },
    "steps": 60,
    "seconds": 1.5,
}


def test_a_verdict_of_schema_1_is_still_read(tmp_path: Path) -> None:
    (tmp_path / VERDICT).write_text(json.dumps(OLD))
    found = Verdict.read(tmp_path)
    first = found.judgements["a"]
    assert first.harm is not None
    assert first.harm.change == Change.of("use_rule", beta=0.9, rule="AdamW")
    assert (first.harm.nats, first.cure) == (math.inf, Change.of("hold_lr"))
    assert (found.status, found.ranked, found.notes) == ("proven", ["a"], ())
    # Written again, it is one of today.
    assert found.as_json()["causes"][0]["harm"]["change"] == {
        "name": "use_rule",
        "options": {"beta": 0.9, "rule": "AdamW"},
    }
