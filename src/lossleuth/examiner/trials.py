"""Paired runs: the same start, the same seeds, one thing different; what it does to the loss."""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lossleuth.examiner.measured import (
    MIN_MEASURED_STEPS,
    Measured,
    measured,
    measured_steps,
)
from lossleuth.interventions.spec import spec_of
from lossleuth.observe.launch.executor import Executor, RunOutcome, RunSpec
from lossleuth.record.read import Record
from lossleuth.run_directory import RunDirectory
from lossleuth.types.change import MIN_PROVING_SEEDS, Change, Effect, counted
from lossleuth.types.errors import BadInput
from lossleuth.types.phases import segments

# Where every step is recorded and replayed, a trial is so many times shorter, but not below this.
TAPED_TIMES_SHORTER, MIN_TAPED_STEPS = 3, 20
# Nats that one pair of longer runs has to gain for more of them to be made.
MIN_GAIN_NATS = 0.03
# How far apart the seeds of paired runs are.
SEED_SHIFT = 1000


class RunKey(NamedTuple):
    """What makes a run the same as another."""

    changes: tuple[Change, ...]
    seed: int
    steps: int
    # The first step of the phase that it is a trial of.
    first: int = 0


# Finished runs, or why they gave nothing.
Runs = dict[RunKey, Measured | str]


class Trials:
    """Runs trials of one program; runs without a change are made once and kept.

    A run of `steps` steps is taken to hang after `seconds`.
    """

    def __init__(
        self,
        executor: Executor,
        directory: Path,
        *,
        steps: int,
        seconds: float,
        base: tuple[Change, ...] = (),
        first: int = 0,
        until: float = math.inf,
        progress: Callable[[str], None] = lambda _: None,
        known: dict[RunKey, Measured | str] | None = None,
        forked_after: int | None = None,
        observed: Sequence[float] = (),
    ) -> None:
        """Runs without a change and with the same seeds give the `observed` losses."""
        self._executor = executor
        self._directory = directory
        self.steps = steps
        self._seconds = seconds
        self._base = base
        self._first = first
        self._until = until
        self._progress = progress
        self._known = {} if known is None else known
        self._forked_after = forked_after
        self._observed = observed

    def run(
        self, changes: Sequence[Change], seeds: Sequence[int], steps: int | None = None
    ) -> dict[Change, Effect | str]:
        """The effect of each change over paired seeds, or why there is none.

        Runs are of so many steps, or as long as usual.
        """
        wanted: list[RunKey] = []
        for change in changes:
            length = steps or self._steps_of(change)
            for made in (self._base, (*self._base, change)):
                wanted += [RunKey(made, seed, length, self._first) for seed in seeds]
        self._make([key for key in dict.fromkeys(wanted) if key not in self._known])
        return {
            c: effect_of(self._known, self._base, c, seeds, steps or self._steps_of(c), self._first)
            for c in changes
        }

    def run_longer(self, change: Change, seeds: Sequence[int], longer: int) -> Effect | str:
        """The effect of a change that had none: of one longer pair, and of all where it gains."""
        steps = longer * self._steps_of(change)
        pair = self.run([change], seeds[:1], steps)[change]
        if isinstance(pair, str) or pair.nats < MIN_GAIN_NATS:
            return pair
        return self.run([change], seeds, steps)[change]

    def _steps_of(self, change: Change) -> int:
        if not any(spec_of(c.name).wants_tape for c in (*self._base, change)):
            return self.steps
        return max(min(MIN_TAPED_STEPS, self.steps), self.steps // TAPED_TIMES_SHORTER)

    def _patience(self, key: RunKey) -> float:
        """Seconds after which a run hangs; nobody knows what recording every step may take."""
        taped = any(spec_of(c.name).wants_tape for c in key.changes)
        return math.inf if taped else max(1.0, key.steps / self.steps) * self._seconds

    def _make(self, wanted: Sequence[RunKey]) -> None:
        plans = {
            key: RunSpec(
                self._directory / f"{len(self._known) + i:03d}",
                key.first + key.steps,
                self._patience(key),
                loss_steps=tuple(key.first + n for n in (0, 1, *measured_steps(key.steps))),
                seed_shift=SEED_SHIFT * key.seed,
                changes=key.changes,
                from_step=key.first,
                patience=self._patience(key),
                forked_after=self._forked_after,
            )
            for i, key in enumerate(wanted)
        }
        done = {id(plan): key for key, plan in plans.items()}

        def show(finished: RunOutcome) -> None:
            key = done[id(finished.plan)]
            names = ", ".join(c.sentence for c in key.changes) or "unchanged"
            self._progress(f"{names}, seed {key.seed + 1}: {_sentence(self._read(finished, key))}")

        outcomes = self._executor.run(list(plans.values()), self._until, show)
        if not all(self._is_same(outcome, done[id(outcome.plan)]) for outcome in outcomes):
            self._progress("runs from the loaded script differ from the observed one: again")
            self._forked_after = None
            self._executor.load_no_more()
            for outcome in outcomes:
                shutil.rmtree(outcome.plan.directory, ignore_errors=True)
            self._make(wanted)
            return
        for outcome in outcomes:
            key = done[id(outcome.plan)]
            self._known[key] = self._read(outcome, key)

    def _is_same(self, outcome: RunOutcome, key: RunKey) -> bool:
        """Whether a run that went on from a loaded script gives what it must, where that is known.

        Without a change and with the same seeds, its losses are those that were observed.
        """
        if not outcome.went_on or key.changes or key.seed or outcome.problem is not None:
            return True
        try:
            record = Record.open(outcome.plan.directory)
        except BadInput:
            return False
        with record:
            losses = record.series("loss").tolist() if "loss" in record.scalar_names else []
        pairs = zip(losses, self._observed, strict=False)
        return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)

    def _read(self, finished: RunOutcome, key: RunKey) -> Measured | str:
        if finished.problem is not None:
            return finished.problem
        try:
            record = Record.open(finished.plan.directory)
        except BadInput as reason:
            return str(reason)
        with record:
            return _outcome(record, key)


def effect_of(
    known: Mapping[RunKey, Measured | str],
    base: tuple[Change, ...],
    change: Change,
    seeds: Sequence[int],
    steps: int,
    first: int = 0,
) -> Effect | str:
    """What a change did, by the runs that are known, or why that cannot be said."""
    differences, without, with_change, starts = [], [], [], []
    between_batches: list[float] = []
    measure = "true loss"
    for seed in seeds:
        a = known.get(RunKey(base, seed, steps, first), "not run")
        b = known.get(RunKey((*base, change), seed, steps, first), "not run")
        if isinstance(a, str) or isinstance(b, str):
            return a if isinstance(a, str) else str(b)
        if a.measure != b.measure and math.isfinite(a.end) and math.isfinite(b.end):
            a, b = a.differentiated or a, b.differentiated or b
        # A run that breaks has no loss of any kind; others must have the same.
        if math.isfinite(a.end) and math.isfinite(b.end):
            if a.measure != b.measure:
                return f"one run gives a {a.measure}, the other a {b.measure}"
            if a.steps != b.steps:
                where = f"one run was measured at {a.steps_range}, the other at {b.steps_range}"
                a, b = a.at(b.steps), b.at(a.steps)
                if len(a.losses) < MIN_MEASURED_STEPS - 1:
                    return where
        measure = b.measure if math.isinf(a.end) else a.measure
        without.append(a.end)
        with_change.append(b.end)
        starts.append(a.start)
        differences.append(_difference(a.end, b.end))
        batches = zip(a.losses, b.losses, strict=False)
        # As the ends are: a loss that is lost counts as no more than that.
        apart = [counted(x, a.start) - counted(y, a.start) for x, y in batches]
        between_batches.append(_standard_error(apart))
    if not all(map(math.isinf, differences)):
        pairs = zip(without, with_change, starts, strict=True)
        differences = [counted(a, start) - counted(b, start) for a, b, start in pairs]
    error = _standard_error(differences)
    if len(seeds) > 1 and all(map(math.isfinite, [error, *between_batches])):
        # Three runs may agree by chance: the error is never less than what the noise between
        # batches makes of it. Where seeds change nothing, the runs are one.
        runs = len(set(differences))
        error = max(error, math.hypot(*between_batches) / math.sqrt(len(seeds) * runs))
    return Effect(
        change=change,
        nats=_mean(differences),
        error=error,
        seeds=len(seeds),
        steps=steps,
        without=_mean(without),
        with_change=_mean(with_change),
        start=_mean(starts),
        measure=measure,
    )


def saved_records(run: RunDirectory) -> Iterator[tuple[RunKey, Record]]:
    """The runs of trials that were made before, by the records that they left."""
    for path in run.trial_records():
        try:
            record = Record.open(path)
        except BadInput:
            continue
        with record:
            header = record.header
            if "changes" in header and header.get("stop_steps"):
                seed = int(header["seed_shift"]) // SEED_SHIFT
                first = int(header.get("from_step", 0))
                steps = int(header["stop_steps"]) - first
                yield RunKey(changes_of(header), seed, steps, first), record


def changes_of(header: Mapping[str, Any]) -> tuple[Change, ...]:
    """The changes with which a run was recorded."""
    return tuple(Change.of(name, **options) for name, options in header.get("changes", ()))


def saved_runs(run: RunDirectory) -> dict[RunKey, Measured | str]:
    """How the runs of saved trials came out."""
    return {key: _outcome(record, key) for key, record in saved_records(run)}


def saved_effects(
    known: Mapping[RunKey, Measured | str], base: tuple[Change, ...], first: int = 0
) -> dict[Change, Effect]:
    """What is known of every change that was tried on top of others: the longest trial of each.

    A phase of a run is known by its first step.
    """
    made: dict[tuple[Change, int], list[int]] = {}
    for key in sorted(known, key=lambda key: (key.steps, key.seed)):
        if key.first == first and key.changes[:-1] == base and key.changes != base:
            made.setdefault((key.changes[-1], key.steps), []).append(key.seed)
    found: dict[Change, Effect] = {}
    for (change, steps), seeds in made.items():
        # What was chosen by its first seed is told by others, where there are enough.
        fresh = [seed for seed in seeds if seed]
        chosen = fresh if len(fresh) >= MIN_PROVING_SEEDS else seeds
        effect = effect_of(known, base, change, chosen, steps, first)
        before = found.get(change)
        fewer = before is not None and isinstance(effect, Effect) and effect.seeds < before.seeds
        if isinstance(effect, Effect) and not fewer:
            found[change] = effect
    return found


def saved_pairs(
    known: Mapping[RunKey, Measured | str],
    base: tuple[Change, ...],
    effects: Mapping[Change, Effect],
    first: int = 0,
) -> dict[Change, Effect]:
    """Of changes with a known effect, a pair of runs that were longer than its trial."""
    found: dict[Change, Effect] = {}
    for change, effect in effects.items():
        made = [k for k in known if k.changes == (*base, change) and k.first == first]
        steps = max((key.steps for key in made), default=0)
        pair = effect_of(known, base, change, (0,), steps, first)
        if steps > effect.steps and isinstance(pair, Effect):
            found[change] = pair
    return found


def _outcome(record: Record, key: RunKey) -> Measured | str:
    ended = record.ended or {}
    if ended.get("how") == "intervention failed":
        return str(ended.get("error"))
    if key.first and not _begins_at(record, key.first):
        return f"with this seed, the phase does not begin at step {key.first + 1}"
    return measured(record, key.steps, key.first)


def _begins_at(record: Record, step: int) -> bool:
    """Whether a phase of a run begins with this step."""
    trained = record.values("trained") if "trained" in record.scalar_names else []
    return step in {begin for begin, _ in segments(trained)}


def _sentence(found: Measured | str) -> str:
    return found if isinstance(found, str) else f"{found.measure} {found.end:.3f}"


def _difference(without: float, with_change: float) -> float:
    if math.isinf(without) and math.isinf(with_change):
        return 0.0
    return without - with_change


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if all(map(math.isfinite, values)) else sum(values)


def _standard_error(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.inf
    if not all(map(math.isfinite, values)):
        # One side has no number at all in some pairs; in all of them, there is no doubt.
        return 0.0 if len(set(values)) == 1 else math.inf
    return statistics.stdev(values) / math.sqrt(len(values))
