"""What is loaded for a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from made_runs import EFFECT, record, true_losses, verdict

from lossleuth.report.document.load_facts import facts_of
from lossleuth.types.observed import Floors, FoundIn, Origins


def test_a_run_s_record_is_found_where_it_was_observed(tmp_path: Path) -> None:
    events = [
        *true_losses((4, 2.0), (0, 3.0)),
        ("floors", {"unigram": 1.9, "bigram": 1.2}),
        ("settings", {"optimizers": [{"class": "Adam"}]}),
        ("settings", {"optimizers": []}),
        ("provenance", {"packages": {"torch": "2"}}),
        ("origins", {"tokens": {"file": "tokens.bin", "dtype": "uint16"}, "weights": None}),
    ]
    reads = [[2.5, "train.py:9"], ["NaN", "train.py:3"]]
    record(tmp_path / "observed", [3.0, 2.5], events=events, scalars={"reads": reads})
    facts = facts_of(tmp_path, verdict())
    assert facts.of("loss").tolist() == [3.0, 2.5]
    assert np.isnan(facts.of("supervised")).all()
    assert list(facts.true_losses.items()) == [(0, 3.0), (4, 2.0)]
    assert (facts.vocabulary, facts.floors) == (8, Floors(unigram=1.9, bigram=1.2))
    # At the end of a run its optimizers may be gone.
    assert facts.settings["optimizers"] == [{"class": "Adam"}]
    assert facts.packages == {"torch": "2"}
    assert facts.origins == Origins(tokens=FoundIn("tokens.bin"))
    assert (facts.header.script, facts.header.arguments) == ("train.py", ("--size", "a b"))
    assert facts.reads["train.py:9"].tolist() == [2.5, 2.5]
    assert np.isnan(facts.reads["train.py:3"]).all()


def test_trials_are_known_by_what_their_records_say(tmp_path: Path) -> None:
    record(tmp_path / "observed", [3.0])
    change = [EFFECT.change.name, dict(EFFECT.change.options)]
    for number, changes in enumerate(([], [change])):
        header = {"changes": changes, "seed_shift": 1000, "stop_steps": 8}
        record(tmp_path / "trials" / "0" / f"00{number}", [3.0, 2.0], header=header)
    # One that was made before records said so.
    record(tmp_path / "trials" / "0" / "002", [3.0, 2.0])
    found = facts_of(tmp_path, verdict()).trials
    assert [(t.changes, t.seed, t.steps) for t in found] == [((), 1, 8), ((EFFECT.change,), 1, 8)]
    assert found[0].losses.tolist() == [3.0, 2.0]


def test_without_a_record_there_is_the_verdict_alone(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, verdict())
    assert len(facts.steps) == 0
    assert facts.verdict.status == "proven"


def test_a_header_of_another_program_costs_only_what_is_odd(tmp_path: Path) -> None:
    record(tmp_path, [3.0], header={"script": 7, "started": "now", "python": "3.12"})
    header = facts_of(tmp_path, verdict()).header
    assert (header.script, header.started, header.python) == ("", None, "3.12")
