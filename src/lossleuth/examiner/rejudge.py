"""Judges a saved run again from its directory alone: no torch, no new trials."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lossleuth.catalogue import battery_for, chosen_causes
from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.examiner.saved_examination import SavedExamination, SavedLook
from lossleuth.examiner.trials import changes_of, saved_effects, saved_pairs, saved_runs
from lossleuth.judge.judge import Circumstances, judge
from lossleuth.judge.verdict import Verdict
from lossleuth.record.read import Record
from lossleuth.run_directory import RunDirectory, of_bad_step, of_evaluations
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.errors import BadInput
from lossleuth.types.phases import Phase


def rejudge(directory: Path, causes: Sequence[Cause] | None = None) -> Verdict:
    """Judge a saved run as it was judged, by the causes that were asked for then."""
    run = RunDirectory(directory)
    saved = SavedExamination.read(run) or examination_by_records(run)
    known = chosen_causes(saved.only) if causes is None else causes
    looks = [look.load(run) for look in saved.looks]
    return judge(known, looks, saved.circumstances, battery=battery_for(saved.only))


def saved_verdict(directory: Path) -> Verdict:
    """The saved verdict, with notes on the run as a whole."""
    verdict = Verdict.read(directory)
    if not verdict.notes:
        # Older files have none.
        with suppress(BadInput):
            return replace(verdict, notes=rejudge(directory).notes)
    return verdict


def examination_by_records(run: RunDirectory) -> SavedExamination:
    """Rebuild an examination from records: of a watched run, or an unfinished one."""
    first = [run.look]
    if run.look != run.path:
        first += [of_bad_step(run.look), of_evaluations(run.look)]
    folders = [first[0], *filter(_has_record, first[1:])]
    phases = evidence_of(first[0]).phases
    each: list[Phase | None] = [*phases] or [None]
    paths: dict[tuple[Phase | None, tuple[Change, ...]], list[Path]] = {
        (phase, ()): folders for phase in each
    }
    for path in filter(_has_record, run.cured_looks()):
        cures, begins = _cured(path)
        phase = next((p for p in phases if p.first == begins), None)
        paths[phase, cures] = [path]
    tried = saved_runs(run)
    looks = []
    for (phase, cures), records in paths.items():
        begins = phase.first if phase else 0
        effects = saved_effects(tried, cures, begins)
        looks.append(
            SavedLook(
                folders=[str(path.relative_to(run.path)) for path in records],
                cures=cures,
                effects=effects,
                longer=saved_pairs(tried, cures, effects, begins),
                phase=phase,
            )
        )
    return SavedExamination(looks, circumstances=Circumstances(run.look == run.observed_by_hand))


def _has_record(directory: Path) -> bool:
    try:
        Record.open(directory).close()
    except BadInput:
        return False
    return True


def _cured(directory: Path) -> tuple[tuple[Change, ...], int]:
    """The cures that were in, and the step from which on they were."""
    with Record.open(directory) as record:
        return changes_of(record.header), int(record.header.get("from_step", 0))
