"""Proofs appear while the program is still observed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import found_on, true_loss

from lossleuth.examiner import early_proofs
from lossleuth.examiner.early_proofs import EarlyProofs
from lossleuth.examiner.examination import Examination
from lossleuth.examiner.progress import Announcement
from lossleuth.examiner.request import Request
from lossleuth.examiner.saved_examination import SavedExamination
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.judge import judge
from lossleuth.observe.launch.executor import RunOutcome, RunSpec
from lossleuth.record.write import RecordWriter
from lossleuth.run_directory import RunDirectory
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where


def too_high(evidence: Evidence) -> Judgement:
    """Proven where the last recorded step has a loss above 3."""
    last = evidence.all(TrueLoss)[-1].loss
    there = last is not None and last > 3
    status = Status.PROVEN if there else Status.REFUTED
    return Judgement(status, f"the last loss is {last}", Where("/somewhere/train.py", 24))


STRUCTURAL = Cause("too_high", Stage.LOSS, "a loss above 3", too_high, needs=(TrueLoss,))
# Its judge looks at findings where they are there, and needs none.
ALONE = replace(STRUCTURAL, needs=(), uses=(TrueLoss,), by_recorded_steps=True)
# One that is judged by the run as a whole: the same at any time.
WHOLE = Cause("whole", Stage.LOSS, "by all steps", lambda _: Judgement(Status.PROVEN, "so it is"))


class Written:
    """A record that grows, and what is said of it."""

    def __init__(self, folder: Path, structural: Cause = STRUCTURAL) -> None:
        self.sentences: list[str] = []
        self.run = RunDirectory(folder)
        self.run.observed.mkdir(parents=True)
        header = {"script": "train.py", "started": time.time() - 7}
        self.writer = RecordWriter.create(self.run.observed, header, print)
        self.early = EarlyProofs([structural, WHOLE], self.run, self.said)
        self.steps = 0

    def said(self, news: Announcement) -> None:
        self.sentences.append(str(news))

    def step(self, loss: float, *, recorded: bool = True) -> None:
        self.writer.step({"step": self.steps, "loss": loss, "seconds": 0.01}, None)
        if recorded:
            self.writer.event(*found_on(self.steps, true_loss(loss)))
        self.steps += 1


@pytest.mark.parametrize("cause", [STRUCTURAL, ALONE], ids=["needs findings", "says so"])
def test_what_two_recorded_steps_prove_is_said_once(tmp_path: Path, cause: Cause) -> None:
    written = Written(tmp_path, cause)
    written.early.look()
    for _ in range(3):
        assert written.sentences == []
        written.step(4.0, recorded=written.steps != 1)
        written.early.look()
    said = "proven after 0 s: too_high, at train.py:24 (trials and the rest follow)"
    assert written.sentences == [said]
    assert written.early.first == pytest.approx(7, abs=5)
    written.step(4.0)
    written.early.look()
    assert written.sentences == [said]


def test_judges_are_asked_only_where_a_recorded_step_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counted(*args: object) -> object:
        asked.append(1)
        return judge(*args)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(early_proofs, "judge", counted)
    written = Written(tmp_path)
    for recorded in (True, True, False, False, True, False):
        written.step(1.0, recorded=recorded)
        for _ in range(3):
            written.early.look()
    assert len(asked) == 2


def test_what_later_steps_refute_is_withdrawn(tmp_path: Path) -> None:
    written = Written(tmp_path)
    for _ in range(2):
        written.step(4.0)
    written.early.look()
    evidence = Evidence(recorded=[found(2, 1.0)])
    written.early.withdraw(judge([STRUCTURAL], [evidence]))
    assert written.sentences[1:] == ["withdrawn: too_high is refuted: the last loss is 1.0"]


def found(step: int, loss: float) -> RecordedStep:
    _, plain = found_on(step, true_loss(loss))
    return RecordedStep.restored(plain)


class Slow:
    """An executor whose first run is not over before its proof was said."""

    def __init__(self, heard: threading.Event) -> None:
        self._heard = heard

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = math.inf,
        on_finished: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        (plan,) = plans
        plan.directory.mkdir(parents=True)
        header = {"script": "train.py", "started": time.time()}
        writer = RecordWriter.create(plan.directory, header, print)
        for step in range(2):
            writer.step({"step": step, "loss": 4.0, "seconds": 0.01}, None)
            writer.event(*found_on(step, true_loss(4.0)))
        assert self._heard.wait(30)
        writer.end({"how": "stopped"})
        return [RunOutcome(plan, 0, 1.0)]


def test_it_is_said_while_the_program_still_runs_and_its_time_is_kept(tmp_path: Path) -> None:
    heard = threading.Event()
    sentences = []

    def hear(news: object) -> None:
        sentences.append(str(news))
        if isinstance(news, Announcement):
            heard.set()

    request = Request("train.py", tmp_path / "run", trials=False, early=True)
    verdict = Examination(Slow(heard), request, hear, [STRUCTURAL]).run()
    assert verdict.status == "proven"
    (said,) = [s for s in sentences if s.startswith("proven after")]
    assert sentences.index(said) < sentences.index("0 of 1 causes ruled out")
    saved = SavedExamination.read(request.run)
    assert saved is not None and saved.first_proof is not None
    assert 0 <= saved.first_proof < 30


def test_its_failure_costs_nothing_else(tmp_path: Path) -> None:
    def fail(news: object) -> None:
        if isinstance(news, Announcement):
            raise RuntimeError("ours")

    written = Written(tmp_path)
    for _ in range(2):
        written.step(4.0)
    with EarlyProofs([STRUCTURAL], written.run, fail) as early:
        time.sleep(2 * early_proofs.POLL_SECONDS)
    assert list(early.said) == ["too_high"]
