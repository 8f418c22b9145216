"""Judging a saved run again, from its records alone: no torch, no new trials."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lossleuth.catalogue import causes
from lossleuth.examiner.examination import BAD, EVALUATED, OBSERVED, OBSERVED_BY_HAND, TRIALS
from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.examiner.trials import saved_effects, saved_pairs, saved_runs
from lossleuth.judge.choosing import joined, merged
from lossleuth.judge.judging import explained, judge_all, stood_down, untried
from lossleuth.judge.known_numbers import recognised
from lossleuth.judge.learning import learning
from lossleuth.judge.verdict import Verdict, ranked, status_of
from lossleuth.record.read import Record
from lossleuth.types.change import Change
from lossleuth.types.errors import BadInput
from lossleuth.types.evidence import Evidence


def look_of(directory: Path) -> Path:
    """Where the record is that a run's verdict rests on."""
    looks = (directory / OBSERVED_BY_HAND, directory / OBSERVED)
    return next((look for look in looks if look.is_dir()), directory)


def examine_record(directory: Path) -> Verdict:
    """Judge a saved run by its record, the trials beside it, and what was seen with cures in."""
    known_causes = causes()
    tried = saved_runs(directory / TRIALS)
    first = _first_look(directory)
    effects = saved_effects(tried, ())
    first = replace(first, effects=effects, longer=saved_pairs(tried, (), effects))
    known = stood_down(known_causes, judge_all(known_causes, first))
    for look in sorted(directory.glob("cured*/record.log")):
        try:
            cures = _changes(look)
            effects = saved_effects(tried, cures)
            evidence = evidence_of(look.parent, effects)
        except BadInput:
            continue
        longer = saved_pairs(tried, cures, effects)
        again = judge_all(known_causes, replace(evidence, cures=cures, longer=longer))
        known = merged(known, again, cures)
    state = learning(first)
    known = explained(known_causes, untried(known) if state.learns else known)
    order = ranked(known_causes, known)
    status = status_of(order, known, learns=bool(state.learns))
    notes = (state.sentence, *recognised(first))
    return Verdict(status, known, order, len(first.steps), 0.0, notes)


def saved_verdict(directory: Path) -> Verdict:
    """The verdict that was written, with what is seen of the run as a whole."""
    verdict = Verdict.read(directory)
    try:
        evidence = _first_look(directory)
    except BadInput:
        return verdict
    tried = saved_effects(saved_runs(directory / TRIALS), ())
    state = learning(replace(evidence, effects=tried))
    return replace(verdict, notes=(state.sentence, *recognised(evidence)))


def _first_look(directory: Path) -> Evidence:
    """What was observed first, with the steps that were recorded apart."""
    look = look_of(directory)
    evidence = evidence_of(look)
    for name in (BAD, EVALUATED):
        with suppress(BadInput):
            evidence = joined(evidence, evidence_of(look.with_name(f"{look.name}{name}")))
    return evidence


def _changes(log: Path) -> tuple[Change, ...]:
    with Record.open(log) as record:
        changes = record.header.get("changes", ())
        return tuple(Change.of(name, **options) for name, options in changes)
