"""Paired runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from made_runs import record_of_losses
from torch import nn
from torch.nn import functional as F

from lossleuth.examiner.in_process import InProcess
from lossleuth.examiner.measured import Measured, measured
from lossleuth.examiner.trials import (
    RunKey,
    Trials,
    saved_effects,
    saved_pairs,
    saved_runs,
)
from lossleuth.observe.launch.executor import Background, RunOutcome, RunSpec
from lossleuth.observe.launch.program import Program
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter
from lossleuth.run_directory import RunDirectory
from lossleuth.types.change import Change, Effect, counted

CHANGE = Change.of("scale_lr", factor=0.1)
Losses = Callable[[bool, int], Sequence[float] | str]


class Written:
    """Carries out plans by writing what such runs would have left: (changed, seed) to losses."""

    def __init__(self, losses: Losses, true: Losses = lambda changed, seed: ()) -> None:
        self._losses, self._true = losses, true
        self.plans: list[RunSpec] = []

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = math.inf,
        on_finished: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        found = []
        for plan in plans:
            self.plans.append(plan)
            key = (bool(plan.changes), plan.seed_shift // 1000)
            losses, true = self._losses(*key), self._true(*key)
            if isinstance(losses, str) or isinstance(true, str):
                found.append(RunOutcome(plan, None, 1.0, str(losses)))
            else:
                record_of_losses(plan.directory, losses, true)
                found.append(RunOutcome(plan, 0, 1.0))
            on_finished(found[-1])
        return found


def effect_of(folder: Path, losses: Losses, true: Losses = lambda c, s: (), **more: Any) -> Any:
    options = {"steps": 10, "seconds": 5.0} | more
    return Trials(Written(losses, true), folder / "trials", **options).run([CHANGE], range(3))[
        CHANGE
    ]


def level(value: float, steps: int = 10) -> list[float]:
    return [9.0] + [value] * (steps - 1)


def test_a_change_that_lowers_the_loss_has_a_positive_effect(tmp_path: Path) -> None:
    found = effect_of(tmp_path, lambda changed, seed: level((2.0 if changed else 3.0) + seed / 10))
    assert isinstance(found, Effect)
    assert found.nats == pytest.approx(1.0)
    assert (found.without, found.with_change) == (pytest.approx(3.1), pytest.approx(2.1))
    assert (found.seeds, found.steps, found.start) == (3, 10, 9.0)
    assert found.measure == "differentiated loss"
    assert found.is_better


def test_a_change_that_harms_has_a_negative_one(tmp_path: Path) -> None:
    found = effect_of(tmp_path, lambda changed, seed: level((4.0 if changed else 3.0) + seed / 10))
    assert found.nats == pytest.approx(-1.0)
    assert not found.is_better


def test_the_error_is_that_of_the_paired_differences(tmp_path: Path) -> None:
    gains = (0.5, 1.0, 1.5)
    found = effect_of(tmp_path, lambda changed, seed: level(3 + 10 * seed - changed * gains[seed]))
    # Seeds differ by 10; their differences only by their standard deviation of 0.5.
    assert found.nats == pytest.approx(1.0)
    assert found.error == pytest.approx(0.5 / math.sqrt(3))


def test_where_seeds_change_nothing_batches_tell_the_error(tmp_path: Path) -> None:
    gains = (1.0, 2.0, 3.0, 2.0)

    def losses(changed: bool, _seed: int) -> list[float]:
        return [9.0] * 6 + [5.0 - changed * gain for gain in gains]

    found = effect_of(tmp_path, losses)
    assert found.nats == pytest.approx(2.0)
    assert found.error == pytest.approx(math.sqrt(2 / 3) / 2)


def test_three_runs_that_agree_by_chance_have_the_noise_between_batches(tmp_path: Path) -> None:
    def losses(changed: bool, seed: int) -> list[float]:
        noise = (0.9, -0.9, 0.9, -0.9) if changed else (0.0,) * 4
        return [9.0] * 6 + [5.0 - 0.2 * changed + 0.001 * changed * seed + one for one in noise]

    found = effect_of(tmp_path, losses)
    assert found.nats == pytest.approx(0.2, abs=0.01)
    assert found.error > 0.2 and not found.is_better


def test_the_true_loss_counts_where_it_is_known(tmp_path: Path) -> None:
    found = effect_of(
        tmp_path,
        lambda changed, seed: level(100.0),
        lambda changed, seed: level((2.0 if changed else 3.0) + seed / 10),
    )
    assert found.measure == "true loss"
    assert found.nats == pytest.approx(1.0)


def test_runs_of_different_length_are_not_compared(tmp_path: Path) -> None:
    found = effect_of(tmp_path, lambda changed, seed: level(2.0, 7 if changed else 10))
    assert found == "one run was measured at steps 6 to 9, the other at steps 3 to 6"


def test_runs_of_nearly_the_same_length_are_compared_where_both_were_measured(
    tmp_path: Path,
) -> None:
    found = effect_of(tmp_path, lambda changed, seed: level(1.0 + (not changed), 60 - changed))
    assert found.nats == pytest.approx(1.0)


def test_a_true_loss_is_not_compared_with_another(tmp_path: Path) -> None:
    found = effect_of(
        tmp_path, lambda changed, seed: level(2.0), lambda c, s: level(1.0) if c else ()
    )
    # Both have a differentiated one.
    assert (found.nats, found.measure) == (0.0, "differentiated loss")


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_run_that_breaks_is_infinitely_worse(tmp_path: Path, broken: float) -> None:
    found = effect_of(tmp_path, lambda changed, seed: level(2.0 if changed else broken))
    assert (found.nats, found.error, found.without) == (math.inf, 0.0, math.inf)
    assert found.is_better
    other = effect_of(tmp_path / "b", lambda changed, seed: level(broken if changed else 2.0))
    assert other.nats == -math.inf
    assert not other.is_better


def test_a_run_that_breaks_early_and_has_no_true_loss_is_still_worse(tmp_path: Path) -> None:
    found = effect_of(
        tmp_path,
        lambda changed, seed: level(2.0) if changed else [9.0, math.nan],
        lambda changed, seed: level(2.0) if changed else (),
    )
    assert (found.nats, found.measure) == (math.inf, "true loss")


def test_two_runs_that_both_break_do_not_differ(tmp_path: Path) -> None:
    found = effect_of(tmp_path, lambda changed, seed: level(math.nan))
    assert found.nats == 0
    assert not found.is_better


def test_one_seed_that_breaks_among_three_proves_nothing(tmp_path: Path) -> None:
    found = effect_of(
        tmp_path, lambda changed, seed: level(math.nan if seed == 1 and not changed else 2.0)
    )
    # It counts as ten times its start, against 2.0.
    assert found.nats == pytest.approx((90.0 - 2.0) / 3)
    assert not found.is_better


def test_how_far_lost_runs_went_does_not_drown_what_the_change_does(tmp_path: Path) -> None:
    lost = (5801.8, 11200.7, 36890.7)
    found = effect_of(
        tmp_path, lambda changed, seed: level(1.0 + seed / 10 if changed else lost[seed])
    )
    assert found.without == pytest.approx(sum(lost) / 3)
    assert found.nats == pytest.approx(90.0 - 1.1)
    assert found.error == pytest.approx(0.1 / math.sqrt(3))
    assert found.is_better
    assert found.sentence.endswith("paired runs of 10 steps; above 90.000 counts as that)")


def test_two_runs_that_are_both_lost_do_not_differ(tmp_path: Path) -> None:
    found = effect_of(tmp_path, lambda changed, seed: level(500.0 if changed else 4000.0 + seed))
    assert found.nats == 0
    assert not found.is_better


@pytest.mark.parametrize("start", [math.nan, 0.0, -1.0])
def test_without_a_start_to_compare_with_all_counts(start: float) -> None:
    assert counted(1e4, start) == 1e4


def test_a_run_that_fails_gives_its_reason_instead(tmp_path: Path) -> None:
    found = effect_of(tmp_path, lambda changed, seed: "it hung" if changed else level(2.0))
    assert found == "it hung"


def test_too_short_a_run_is_said_to_be(tmp_path: Path) -> None:
    found = effect_of(tmp_path, lambda changed, seed: [1.0, 1.0])
    assert found == "it made 2 steps, where 10 were expected"


def test_runs_without_the_change_are_made_once(tmp_path: Path) -> None:
    written = Written(lambda changed, seed: level(2.0))
    sentences: list[str] = []
    trials = Trials(written, tmp_path, steps=10, seconds=5.0, progress=sentences.append)
    other = Change.of("hold_lr")
    trials.run([CHANGE], [0])
    assert len(written.plans) == 2
    trials.run([CHANGE, other], range(3))
    # Three seeds of three kinds of run, each once.
    assert len(written.plans) == 9
    assert len({plan.directory for plan in written.plans}) == 9
    assert sentences[0] == "unchanged, seed 1: differentiated loss 2.000"


def test_with_a_cure_in_all_runs_have_it(tmp_path: Path) -> None:
    cure = Change.of("clear_gradients")
    written = Written(lambda changed, seed: level(2.0))
    Trials(written, tmp_path, steps=10, seconds=5.0, base=(cure,)).run([CHANGE], [0])
    assert [plan.changes for plan in written.plans] == [(cure,), (cure, CHANGE)]
    assert {plan.loss_steps for plan in written.plans} == {(0, 1, 6, 7, 8, 9)}


def test_a_run_is_ended_when_it_hangs_but_not_where_every_step_is_recorded(tmp_path: Path) -> None:
    written = Written(lambda changed, seed: level(2.0))
    taped = Change.of("follow_true_gradient")
    trials = Trials(written, tmp_path, steps=10, seconds=5.0)
    trials.run([CHANGE], [0], 30)
    assert [plan.patience for plan in written.plans] == [15.0, 15.0]
    trials.run([taped], [0])
    assert written.plans[-1].patience == math.inf


def small_step(model: Any, optimizer: Any, batch: Any) -> None:
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize(
    "null",
    [
        Change.of("scale_lr", factor=1.0),
        Change.of("clear_gradients"),
    ],
    ids=lambda change: change.name,
)
def test_a_null_change_of_a_real_training_has_exactly_no_effect(
    tmp_path: Path, null: Change
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    batches = [torch.randint(0, 8, (4, 6)) for _ in range(12)]
    executor = InProcess(small_step, model, optimizer, batches)
    trials = Trials(executor, tmp_path, steps=8, seconds=20.0)
    found = trials.run([null], range(2))[null]
    assert isinstance(found, Effect)
    assert (found.nats, found.error, found.measure) == (0.0, 0.0, "true loss")
    assert found.with_change < found.start


SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.Linear(4, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
for step in range(100):
    tokens = torch.randint(0, 8, (4, 6))
    scores = model(tokens[:, :-1]).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(scores, tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_null_change_of_a_script_in_its_own_process_has_exactly_no_effect(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    background = Background(Program(tmp_path / "train.py"), 2)
    null = Change.of("scale_lr", factor=1.0)
    trials = Trials(background, tmp_path / "trials", steps=8, seconds=300.0)
    found = trials.run([null], [0])[null]
    assert isinstance(found, Effect)
    assert (found.nats, found.measure) == (0.0, "true loss")
    # One pair proves nothing.
    assert found.error == math.inf


def saved(folder: Path, losses: Sequence[float], seed: int, *changes: Change) -> None:
    header: dict[str, Any] = {"changes": [[c.name, dict(c.options)] for c in changes]}
    header |= {"seed_shift": 1000 * seed, "stop_steps": len(losses)}
    writer = RecordWriter.create(folder, header, print)
    for step, loss in enumerate(losses):
        writer.step({"step": step, "loss": loss}, None)
    writer.end({"how": "stopped"})


def test_saved_trials_give_the_effect_that_they_gave(tmp_path: Path) -> None:
    cure = Change.of("hold_lr")
    for seed in range(3):
        folder = tmp_path / "trials" / "0"
        saved(folder / f"{seed}a", [3.0] * 20, seed)
        saved(folder / f"{seed}b", [2.0 - 0.1 * seed] * 20, seed, CHANGE)
        saved(tmp_path / "trials" / "1" / f"{seed}", [1.0] * 20, seed, cure)
        saved(tmp_path / "trials" / "1" / f"{seed}c", [0.5] * 20, seed, cure, CHANGE)
    # A longer trial of one seed alone decides nothing that three have decided.
    saved(tmp_path / "trials" / "0" / "long", [3.0] * 40, 0)
    saved(tmp_path / "trials" / "0" / "longer", [9.0] * 40, 0, CHANGE)
    saved(tmp_path / "trials" / "0" / "alone", [9.0] * 60, 1, CHANGE)
    (tmp_path / "trials" / "0" / "broken").mkdir()
    (tmp_path / "trials" / "0" / "broken" / "record.log").write_bytes(b"")
    known = saved_runs(RunDirectory(tmp_path))
    found = saved_effects(known, ())
    assert set(found) == {CHANGE, cure}
    assert (found[CHANGE].seeds, found[CHANGE].steps) == (3, 20)
    assert math.isclose(found[CHANGE].nats, 1.1)
    assert math.isclose(saved_effects(known, (cure,))[CHANGE].nats, 0.5)
    # The longer pair is reported beside it; a run that stands alone is no pair.
    pairs = saved_pairs(known, (), found)
    assert pairs == {}
    del known[RunKey((CHANGE,), 1, 60)]
    pairs = saved_pairs(known, (), found)
    assert (set(pairs), pairs[CHANGE].steps, pairs[CHANGE].nats) == ({CHANGE}, 40, -6.0)


def phase_record(folder: Path, losses: Sequence[float], first: int, begins: int) -> Record:
    """A run that trains something else from a step on; a trial thinks that it is this one."""
    header = {"changes": [], "seed_shift": 0, "stop_steps": len(losses), "from_step": first}
    writer = RecordWriter.create(folder, header, print)
    for step, loss in enumerate(losses):
        writer.step({"step": step, "loss": loss, "trained": int(step >= begins)}, None)
    writer.end({"how": "stopped"})
    return Record.open(folder)


def test_in_a_later_phase_the_losses_of_that_phase_are_measured(tmp_path: Path) -> None:
    losses = [9.0] * 10 + [3.0 - 0.1 * i for i in range(10)]
    with phase_record(tmp_path / "trials" / "0" / "000", losses, 10, 10) as record:
        found = measured(record, 10, 10)
    assert isinstance(found, Measured)
    assert (found.start, found.losses) == (3.0, tuple(losses[-4:]))
    (key,) = saved_runs(RunDirectory(tmp_path))
    assert (key.steps, key.first) == (10, 10)


def test_a_phase_that_begins_elsewhere_is_not_measured(tmp_path: Path) -> None:
    phase_record(tmp_path / "trials" / "0" / "000", [3.0] * 20, first=10, begins=12).close()
    (found,) = saved_runs(RunDirectory(tmp_path)).values()
    assert found == "with this seed, the phase does not begin at step 11"


def test_effects_of_one_phase_are_not_those_of_another() -> None:
    def key(changes: tuple[Change, ...], seed: int, first: int) -> RunKey:
        return RunKey(changes, seed, 20, first)

    better = {10: 1.0, 0: 0.0}
    known: dict[RunKey, Measured | str] = {}
    for first, gain in better.items():
        for seed in range(3):
            known[key((), seed, first)] = Measured((3.0,), 4.0, "true loss")
            known[key((CHANGE,), seed, first)] = Measured((3.0 - gain,), 4.0, "true loss")
    assert saved_effects(known, (), 10)[CHANGE].nats == 1.0
    assert saved_effects(known, ())[CHANGE].nats == 0.0
    assert saved_effects(known, (), 5) == {}
