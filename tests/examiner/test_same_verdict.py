"""A saved run that is judged again gives the verdict that it was given, but for the seconds."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_runs import found_on, true_loss
from small_examinations import Recorded, Silent, always, cause, curable, says
from torch import nn
from torch.nn import functional as F

from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.examiner.examination import Examination
from lossleuth.examiner.in_process import InProcess
from lossleuth.examiner.rejudge import rejudge
from lossleuth.examiner.request import Request
from lossleuth.files import make_directory
from lossleuth.judge.verdict import Verdict
from lossleuth.labs.cases.stories import STORIES
from lossleuth.labs.lab.cells import every
from lossleuth.observe.launch.executor import RunOutcome, RunSpec
from lossleuth.observe.steps.pacing import EARLY
from lossleuth.record.kept_batches import KeptBatches
from lossleuth.record.write import RecordWriter
from lossleuth.run_directory import BATCHES
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.judgement import Stage, Status, Wrongness

ONE, TWO = Change.of("clear_gradients"), Change.of("scale_lr", factor=0.1)
GAP = Wrongness("gap", 1.0, 0.0, 0.0)


def without_seconds(verdict: Verdict) -> dict[str, Any]:
    return {k: v for k, v in verdict.as_json().items() if k != "seconds"}


def assert_same(folder: Path, verdict: Verdict, causes: Sequence[Cause] | None = None) -> None:
    again = rejudge(folder, causes)
    assert without_seconds(again) == without_seconds(verdict)


# Runs that were never made: every way that an examination can go.


def flat(plan: RunSpec) -> list[float]:
    """Learns nothing, unless both faults are cured."""
    seed = plan.seed_shift / 1e5
    if ONE in plan.changes and TWO in plan.changes:
        return [3.0 - 0.1 * i + seed for i in range(30)]
    return [3.0 - 1.0 * (ONE in plan.changes) + seed] * 30


def falling(plan: RunSpec) -> list[float]:
    return [3.0 - 0.1 * i for i in range(30)]


def hardly(plan: RunSpec) -> list[float]:
    less = 1e-3 * len(plan.changes) - plan.seed_shift / 1e5
    return [3.0 - less - i / plan.steps for i in range(plan.steps)]


class ByHand(Recorded):
    """A program in which nothing is seen unless updates by hand are looked for."""

    def _write(self, plan: RunSpec) -> RunOutcome:
        if plan.by_hand:
            return super()._write(plan)
        Silent(self._losses)._write(plan)
        return RunOutcome(plan, 0, 1.0)


class Failing(Recorded):
    """Trials of the first change come to no end."""

    def _write(self, plan: RunSpec) -> RunOutcome:
        finished = super()._write(plan)
        if ONE in plan.changes:
            finished.problem = "it did not finish within 9 s"
        return finished


class Phased(Recorded):
    """Trains one thing for 30 steps, then another; with a change, from where it acts."""

    def _write(self, plan: RunSpec) -> RunOutcome:
        make_directory(plan.directory)
        header = {"script": "train.py", "seed_shift": plan.seed_shift, "stop_steps": plan.steps}
        header |= {"changes": [[c.name, dict(c.options)] for c in plan.changes]}
        header |= {"from_step": plan.from_step} if plan.from_step else {}
        writer = RecordWriter.create(plan.directory, header, print)
        changed = [plan.changes if step >= plan.from_step else () for step in range(70)]
        for step in range(min(70, plan.steps or 70)):
            loss = self._losses(replace(plan, changes=changed[step]))[step]
            second = step >= 30
            writer.step({"step": step, "loss": loss, "seconds": 0.01, "trained": int(second)}, None)
            if step in plan.tape or (plan.paced and step in (0, 1, 30, 31)):
                writer.event(*found_on(step, true_loss(loss)))
        writer.end({"how": "stopped"})
        return RunOutcome(plan, 0, 1.0)


def second_is_flat(plan: RunSpec) -> list[float]:
    """The first thing learns; the second does so with the first change in."""
    seed = plan.seed_shift / 1e5
    learnt = 0.05 * (ONE in plan.changes)
    return [3.0 - 0.09 * i + seed for i in range(30)] + [3.0 - learnt * i + seed for i in range(40)]


class InterruptedLook(Recorded):
    """Ctrl-C comes when some steps are already recorded."""

    def run(self, plans: Sequence[RunSpec], *rest: Any) -> list[RunOutcome]:
        super().run(plans, *rest)
        raise KeyboardInterrupt


class KeepsBatches(Recorded):
    """Trains on texts that count in a circle, which any transformer learns at once."""

    def _write(self, plan: RunSpec) -> RunOutcome:
        make_directory(plan.directory)
        writer = RecordWriter.create(plan.directory, {"script": "train.py"}, print)
        writer.parameters(["wte", "head"], [512, 512], ["grad_rms"])
        kept = KeptBatches(plan.directory / BATCHES) if plan.keeps_batches else None
        for step, loss in enumerate(self._losses(plan)[: plan.steps]):
            writer.step({"step": step, "loss": loss, "seconds": 0.01}, None)
            if step in plan.tape or (plan.paced and step in EARLY):
                writer.event(*found_on(step, true_loss(loss, 16)))
            if kept is not None:
                text = (np.arange(13) + 5 * np.arange(8)[:, None] + step) % 16
                kept.lookup(text[:, :-1], step)
                kept.targets(text[:, 1:], -100, 16)
                kept.end_micro_batch()
                kept.end_step(step)
        if kept is not None:
            kept.close()
        writer.end({"how": "stopped"})
        return RunOutcome(plan, 0, 1.0)


def hardly_learning(plan: RunSpec) -> list[float]:
    return [2.8 - 0.002 * i for i in range(100)]


SUSPECTED = [cause("a", curable(ONE)), cause("b", curable(TWO), Stage.OPTIMIZER)]
SECOND = [
    cause("a", curable(ONE)),
    cause("b", lambda e: curable(TWO)(e) if e.losses[0] < 2.5 else says(Status.REFUTED)),
]
BENIGN = [
    cause(
        "a", lambda e: decided_by_trial(e, says(Status.SUSPECTED, wrongness=GAP, remedy="x"), [ONE])
    )
]
VOIDING = [cause("a", always(says(Status.PROVEN)), voids_trials=True), *SUSPECTED[1:]]
REFUTED = [cause("a", always(says(Status.REFUTED)))]


@dataclass
class Kind:
    """An examination, how it ends, and what is to be seen in its folder."""

    executor: Recorded
    causes: Sequence[Cause]
    status: str
    options: dict[str, Any] = field(default_factory=dict)
    left: tuple[str, ...] = ("observed",)


def kinds() -> dict[str, Kind]:
    bad = [3.0] * 9 + [math.nan] * 21
    return {
        "healthy": Kind(Recorded(falling), SUSPECTED, "healthy"),
        "a cured second look": Kind(Recorded(flat), SECOND, "proven", left=("cured1", "cured2")),
        "without trials": Kind(Recorded(flat), SUSPECTED, "cannot_tell", {"trials": False}),
        "by hand": Kind(ByHand(flat), SUSPECTED, "cannot_tell", left=("observed-by-hand",)),
        "by hand, a fault that is plain": Kind(ByHand(flat), VOIDING, "proven"),
        "a failed trial": Kind(Failing(flat), SUSPECTED, "cannot_tell"),
        "a trial that voids others": Kind(Recorded(flat), VOIDING, "proven"),
        "one batch alone": Kind(Recorded(flat), REFUTED, "cannot_tell", left=("trials/overfit",)),
        "a longer pair": Kind(Recorded(hardly), BENIGN, "healthy", {"steps": 200}),
        "a change that never acts": Kind(Recorded(falling), BENIGN, "suspected"),
        "a bad step": Kind(
            Recorded(lambda plan: bad), REFUTED, "cannot_tell", left=("observed-bad",)
        ),
        "no time for trials": Kind(Recorded(flat), SUSPECTED, "cannot_tell", {"budget": 0.0}),
        "a fault in a later phase": Kind(
            Phased(second_is_flat), SUSPECTED, "proven", {"steps": 70}, left=("cured1", "trials/3")
        ),
        "a later phase, interrupted": Kind(
            Phased(second_is_flat, interrupted_at=2), SUSPECTED, "cannot_tell", {"steps": 70}
        ),
        "far behind a reference": Kind(
            KeepsBatches(hardly_learning), REFUTED, "cannot_tell", {"steps": 100, "budget": 200.0}
        ),
        "interrupted at first": Kind(
            Recorded(flat, interrupted_at=1), SUSPECTED, "cannot_tell", left=()
        ),
        "interrupted while looking": Kind(InterruptedLook(falling), REFUTED, "cannot_tell"),
        "interrupted while trying": Kind(
            Recorded(flat, interrupted_at=2), SUSPECTED, "cannot_tell", left=("observed",)
        ),
        "interrupted with a cure in": Kind(Recorded(flat, interrupted_at=3), SECOND, "proven"),
    }


@pytest.mark.parametrize("name", kinds())
def test_every_kind_of_examination_is_judged_again_as_it_was(tmp_path: Path, name: str) -> None:
    kind = kinds()[name]
    out = tmp_path / "out"
    request = Request("train.py", out, **({"steps": 30, "budget": 60.0} | kind.options))
    verdict = Examination(kind.executor, request, causes=kind.causes).run()
    assert verdict.status == kind.status
    assert [folder for folder in kind.left if not (out / folder).exists()] == []
    assert_same(out, verdict, kind.causes)


def test_a_run_far_behind_its_reference_says_so_first_and_keeps_no_batches(tmp_path: Path) -> None:
    kind, out = kinds()["far behind a reference"], tmp_path / "out"
    request = Request("train.py", out, steps=100, budget=200.0)
    verdict = Examination(kind.executor, request, causes=kind.causes, battery=()).run()
    assert verdict.yardstick is not None and verdict.yardstick.is_behind
    assert verdict.notes[0].startswith("something holds this run back: a plain transformer")
    assert not (out / "observed" / BATCHES).exists()


def test_a_later_phase_is_tried_where_it_is_and_named(tmp_path: Path) -> None:
    executor = Phased(second_is_flat)
    request = Request("train.py", tmp_path / "out", steps=70, budget=60.0)
    verdict = Examination(executor, request, causes=SUSPECTED).run()
    judgement = verdict.judgements["a"]
    assert judgement.phase is not None and judgement.harm is not None
    assert (judgement.phase.number, judgement.phase.first, judgement.phase.last) == (2, 30, 69)
    assert [part.status for part in verdict.phases] == ["healthy", "proven"]
    trials = [plan for plans in executor.calls for plan in plans if plan.loss_steps]
    trials = [plan for plan in trials if "challenges" not in plan.directory.parent.name]
    assert {plan.from_step for plan in trials} == {30}
    assert {plan.steps for plan in trials} == {30 + judgement.harm.steps}
    assert all(step >= 30 for plan in trials for step in plan.loss_steps)
    # From records alone it is put together in the same way.
    (tmp_path / "out" / "examination.json").unlink()
    assert_same(tmp_path / "out", verdict, SUSPECTED)


# Small models, with all causes of the catalogue and trials that are made.


def step(model: Any, optimizer: Any, batch: Any) -> None:
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def sum_up(model: Any, optimizer: Any, batch: Any) -> None:
    """Gradients are not cleared."""
    F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("stepping", "rate", "options", "status"),
    [
        (step, 0.1, {"trials": False}, "cannot_tell"),
        (step, 10.0, {}, "proven"),
        (step, 0.0, {"only": ("lr_zero", "lr_too_low")}, "proven"),
        # With a second look, which takes its time.
        pytest.param(sum_up, 0.1, {}, "proven", marks=pytest.mark.slow),
        (step, 30.0, {"trials": False}, "cannot_tell"),
    ],
    ids=["untried", "rate", "only", "cleared", "high-rate-untried"],
)
def test_a_small_model_is_judged_again_as_it_was(
    tmp_path: Path, stepping: Any, rate: float, options: dict[str, Any], status: str
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    tokens = (torch.arange(9) + torch.randint(0, 8, (30, 8, 1))) % 8
    noise = torch.rand(tokens.shape) < 0.2
    batches = list(torch.where(noise, torch.randint(0, 8, tokens.shape), tokens))
    executor = InProcess(stepping, model, optimizer, batches)
    verdict = Examination(executor, Request("step", tmp_path, steps=30, **options)).run()
    assert (verdict.status, verdict.of(Status.ERRORED)) == (status, [])
    assert (tmp_path / "trials").exists() is not (options != {})
    assert_same(tmp_path, verdict)
    if "only" in options:
        assert set(verdict.judgements) == set(options["only"])


# Whole programs, as users run them.

CELLS = (
    *("plain/healthy", "hf_loop/healthy", "lightning_trainer/healthy", "peers/shift2@2"),
    *("plain/label_offset@2", "plain/repeated_batch@1", "plain/double_softmax"),
    *("plain/future_leak@32", "plain/init_too_large@30", "plain/gradient_not_cleared"),
    *("plain/wrong_backward", "plain/lr_too_high@100", "plain/never_steps", "plain/overflow"),
    *("plain/temperature_too_high@50", "plain/mean_of_means", "plain/tokens_renamed"),
    *("plain/label_offset+gradient_not_cleared", "plain/double_softmax+lr_too_high"),
    *("plain/sawtooth@25", "plain/single_spike@60"),
)
SCRIPTS = {story.name: (story.script, ()) for story in STORIES} | {
    cell.id: (cell.script, tuple(cell.arguments)) for cell in every() if cell.id in CELLS
}
NEVER_UPDATED = ("run_three", "plain/never_steps")
WITH_OPTIONS = {
    "plain/lr_too_high@100": ("--only", "lr_too_high", "--only", "ascent"),
    "plain/clip_too_tight@0.001": ("--no-trials",),
}


def test_all_chosen_programs_are_there() -> None:
    assert len(CELLS) >= 20
    assert set(SCRIPTS) == {story.name for story in STORIES} | set(CELLS)
    assert set(WITH_OPTIONS) <= {cell.id for cell in every()}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "lossleuth", *map(str, arguments)]


def check_run_again(out: Path) -> dict[str, Any]:
    """Compare what a command wrote with what `examine` writes."""
    written = json.loads((out / "verdict.json").read_text())
    done = subprocess.run(command("examine", "--json", out), capture_output=True, check=False)
    again = json.loads(done.stdout)
    assert again | {"seconds": 0} == written | {"seconds": 0}
    return dict(written)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_program_is_judged_again_as_it_was(tmp_path: Path, name: str) -> None:
    script, arguments = SCRIPTS[name]
    subprocess.run(command("run", "--out", tmp_path / "out", script, *arguments), check=False)
    found = check_run_again(tmp_path / "out")
    assert (found["steps"] == 0) is (name in NEVER_UPDATED)
    assert (len(found["refuted"]) > 0, found["errored"]) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_a_program_is_judged_again_with_the_same_options(tmp_path: Path, name: str) -> None:
    (cell,) = (cell for cell in every() if cell.id == name)
    options = (*WITH_OPTIONS[name], "--out", tmp_path / "out")
    subprocess.run(command("run", *options, cell.script, *cell.arguments), check=False)
    found = check_run_again(tmp_path / "out")
    only = {i for i in options if i in found["details"]}
    assert only in (set(), set(found["details"]))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["observed", "trials/0/000", "trials/0/002"])
def test_an_interrupted_program_is_judged_again_as_it_was(tmp_path: Path, folder: str) -> None:
    (cell,) = (cell for cell in every() if cell.id == "plain/lr_too_high@100")
    out = tmp_path / "out"
    process = subprocess.Popen(command("run", "--out", out, cell.script, *cell.arguments))
    record = out / folder / "record.log"
    until = time.monotonic() + 120
    while not record.exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) in (0, 1)
    check_run_again(out)
    assert json.loads((out / "examination.json").read_text())["interrupted"]
