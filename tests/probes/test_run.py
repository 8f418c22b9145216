"""Probes are found by walking their folder, and run on recorded steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from steps import recorded_step

from lossleuth.catalogue import causes
from lossleuth.examiner import load_evidence
from lossleuth.findings.data import Alignment
from lossleuth.findings.finding import Finding, kinds
from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Leaks
from lossleuth.judge import known_numbers, learning
from lossleuth.probes import run
from lossleuth.probes.analysis import Analysis, RunMemory
from lossleuth.probes.probe import Probe
from lossleuth.probes.run import look_at_evaluation, measure_true_loss, probes, run_probes
from lossleuth.record.values import encode_json
from lossleuth.report.document import facts
from lossleuth.tape import deadline
from lossleuth.tape.replay.replay import Replay


def test_every_kind_of_finding_has_exactly_one_probe() -> None:
    found = [probe.finds for probe in probes()]
    assert sorted(k.__name__ for k in found) == sorted(k.__name__ for k in kinds().values())


def test_every_probe_is_needed_by_a_cause_or_read_by_the_judge_or_the_report() -> None:
    readers = (*(cause.reads for cause in causes()), learning.READS, known_numbers.READS)
    others = (load_evidence.READS, facts.READS)
    read: set[type[Finding]] = {kind for kinds in (*readers, *others) for kind in kinds}
    assert {probe.id for probe in probes() if probe.finds not in read} == set()


def test_all_probes_speak_and_what_they_find_can_be_stored() -> None:
    found = run_probes(recorded_step())
    assert found.errored == {}
    (alignment,) = found.all(Alignment)
    assert alignment.offset == 1
    (truth,) = found.all(GradientTruth)
    assert truth.error < 1e-5
    _, left_out = encode_json(found.plain())
    assert left_out == []


def test_a_probe_that_fails_is_named_and_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: Analysis) -> None:
        raise RuntimeError("ours")

    known = [Probe(Leaks, fail) if probe.finds is Leaks else probe for probe in probes()]
    monkeypatch.setattr(run, "probes", lambda: tuple(known))
    found = run_probes(recorded_step())
    assert found.errored == {"leaks": "RuntimeError: ours"}
    assert found.all(Leaks) == []
    assert found.all(Alignment)


def never_ending(_: Analysis) -> None:
    while True:
        with suppress(Exception):
            time.monotonic()


def in_place_of_leaks(monkeypatch: pytest.MonkeyPatch, probe: Callable[[Analysis], None]) -> None:
    known = [Probe(Leaks, probe) if p.finds is Leaks else p for p in probes()]
    monkeypatch.setattr(run, "probes", lambda: tuple(known))


def test_a_probe_that_never_ends_is_stopped_and_named_and_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_place_of_leaks(monkeypatch, never_ending)
    monkeypatch.setattr(run, "PROBE_SHARE", 0.001)
    memory = RunMemory(until=time.time() + 1000)
    for _ in range(2):
        found = run_probes(recorded_step(), memory)
        assert found.errored == {"leaks": "stopped after 1 s"}
        assert found.all(Alignment) and found.all(GradientTruth)
    # It has had its chances, and costs nothing any more.
    (said,) = run_probes(recorded_step(), memory).errored.values()
    assert said == "stopped on earlier steps, because it took too long"


def test_a_replay_that_never_ends_is_stopped_between_two_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def replaying(analysis: Analysis) -> None:
        tape = analysis.window.tape
        wanted = [made for op in tape.operations for made in op.outputs if made is not None]
        while True:
            Replay(tape).run(wanted[-1:])

    in_place_of_leaks(monkeypatch, replaying)
    monkeypatch.setattr(run, "PROBE_SHARE", 0.001)
    # So late that only the replay itself can have noticed.
    monkeypatch.setattr(deadline, "LATER_SECONDS", 1e6)
    found = run_probes(recorded_step(), RunMemory(until=time.time() + 1000))
    assert found.errored == {"leaks": "stopped after 1 s"}


def test_when_all_time_for_a_step_is_over_the_rest_is_not_run() -> None:
    found = run_probes(recorded_step(), RunMemory(until=time.time() - 1))
    assert found.findings == []
    assert set(found.errored.values()) == {"not run: others took all 0 s"}
    assert "leaks" in found.errored


def test_the_true_loss_and_an_evaluation_can_be_had_alone() -> None:
    found = measure_true_loss(recorded_step())
    assert [type(finding) for finding in found.findings] == [TrueLoss]
    assert found.part == "true_loss"
    assert look_at_evaluation(recorded_step()).part == "evaluation"


def test_roles_and_makers_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from lossleuth.tape.roles import loss_roles

    calls = []
    before = loss_roles._best_roles

    def counted(*args: object) -> object:
        calls.append(args)
        return before(*args)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(loss_roles, "_best_roles", counted)
    window = recorded_step()
    run_probes(window)
    assert len(calls) == 1
    assert window.shared is None and not window.replayed
