"""The order of a report."""

from __future__ import annotations

from pathlib import Path

from made_runs import record, verdict

from lossleuth.report.document.document import document_of
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.load_facts import facts_of


def test_parts_come_in_the_order_in_which_they_are_read(tmp_path: Path) -> None:
    record(tmp_path, [3.0, 2.0])
    document = document_of(facts_of(tmp_path, verdict()))
    assert [section.title for section in document.sections] == [
        "",
        "Proof",
        "Ruled out",
        "The run at a glance",
        "Precision",
        "Not tested",
        "Settings",
        "Environment",
    ]
    assert document.title == "lossleuth: train.py"
    assert "8 steps observed in 2 s" in document.subtitle


def test_a_healthy_run_has_no_proof_and_one_without_a_record_a_title() -> None:
    document = document_of(Facts(verdict("healthy")))
    assert "Proof" not in [section.title for section in document.sections]
    assert document.title == "lossleuth: a run"
