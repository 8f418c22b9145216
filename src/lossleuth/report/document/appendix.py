"""The last sections of a report: what was not tested, settings, environment."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any

import numpy as np

from lossleuth.report.document.blocks import Block, Bullets, Folded, Paragraph, Section, Table
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.numbers import format_number
from lossleuth.report.document.sentences import INTERNAL_ERRORS, NOT_TESTED, as_sentence
from lossleuth.types.judgement import Status
from lossleuth.types.observed import FoundIn


def appendix(facts: Facts) -> list[Section]:
    """What the verdict does not cover, and how to reproduce it."""
    return [_not_tested(facts), _settings(facts), _environment(facts)]


def _not_tested(facts: Facts) -> Section:
    verdict = facts.verdict
    blocks: list[Block] = []
    reasons = verdict.reasons(Status.UNTESTED)
    if reasons:
        blocks.append(Bullets([(", ".join(i), as_sentence(why)) for i, why in reasons]))
    else:
        blocks.append(Paragraph("Every cause in the catalogue was tested."))
    errored = verdict.of(Status.ERRORED)
    if errored:
        blocks.append(Paragraph(f"{INTERNAL_ERRORS}:", strong=True))
        blocks.append(Bullets([(i, verdict.judgements[i].because) for i in errored]))
    if facts.problem:
        blocks.append(Paragraph(f"The record is damaged: {facts.problem}."))
    return Section(NOT_TESTED, blocks)


def _settings(facts: Facts) -> Section:
    rows = [*_learning_rate(facts), *_optimizers(facts), *_schedulers(facts)]
    blocks: list[Block] = []
    if rows:
        blocks.append(Table("", ["setting", "value at run time", "set in"], rows))
    else:
        blocks.append(Paragraph("No torch optimizer made an update."))
    origins = facts.origins
    if origins.weights is not None and origins.weights.files:
        items = [(found.file, _share(found)) for found in origins.weights.files]
        blocks += [Paragraph("Initial weights were loaded from:"), Bullets(items)]
    for what, found in (("Tokens", origins.tokens), ("Targets", origins.targets)):
        if found is not None:
            blocks.append(Paragraph(f"{what} were read from {found.file}."))
    return Section("Settings", blocks)


def _learning_rate(facts: Facts) -> list[list[str]]:
    """The first, the highest and the last learning rate of the schedule."""
    rates = facts.of("lr")
    rates = rates[np.isfinite(rates)]
    if not len(rates):
        return []
    first, last = format_number(float(rates[0])), format_number(float(rates[-1]))
    peak = format_number(float(rates.max()))
    value = first if first == last else f"{first} at the start, {last} at the end"
    if peak not in (first, last):
        value += f", {peak} at its peak"
    return [["learning rate", value, _set_in(facts, "lr")]]


def _optimizers(facts: Facts) -> list[list[str]]:
    rows = []
    for number, optimizer in enumerate(facts.settings.get("optimizers", ())):
        name = str(optimizer.get("class", f"optimizer {number + 1}"))
        place = str(optimizer.get("place") or "")
        groups = optimizer.get("groups", ())
        for index, group in enumerate(groups):
            label = name if len(groups) == 1 else f"{name}, group {index + 1}"
            rows += [
                [f"{label}: {key}", _value(value), _set_in(facts, key) or place]
                for key, value in group.items()
                if value is not None
            ]
    return rows


def _schedulers(facts: Facts) -> list[list[str]]:
    rows = []
    for scheduler in facts.settings.get("schedulers", ()):
        name, place = scheduler.get("class", "schedule"), str(scheduler.get("place") or "")
        settings = scheduler.get("settings", {})
        rows += [[f"{name}: {key}", _value(value), place] for key, value in settings.items()]
        rows += [[f"{name}: function", "", str(at)] for at in scheduler.get("functions", ())]
    return rows


def _set_in(facts: Facts, setting: str) -> str:
    """The file, and line if known, that a setting's value was read from."""
    found = facts.origins.settings.get(setting)
    if found is None:
        return ""
    return found.file if found.line is None else f"{found.file}:{found.line}"


def _share(weights: FoundIn) -> str:
    return "" if weights.share is None else f"{weights.share:.0%} of all weights"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _environment(facts: Facts) -> Section:
    header, verdict = facts.header, facts.verdict
    platform = f" on {header.platform}" if header.platform else ""
    changed = " with uncommitted changes" if header.git is not None and header.git.changed else ""
    rows = [
        ["script", header.script],
        ["working directory", header.working_directory],
        ["Python", f"{header.python}{platform}"],
        ["git commit", f"{header.git.commit}{changed}" if header.git is not None else ""],
        ["started", "" if header.started is None else _time(header.started)],
        ["record", facts.state],
        ["steps", str(verdict.steps)],
        ["seconds", f"{verdict.seconds:.0f}" if verdict.seconds else ""],
    ]
    blocks: list[Block] = [Table("", ["", "value"], [row for row in rows if row[1]])]
    if facts.packages:
        packages = [[name, version] for name, version in sorted(facts.packages.items())]
        blocks.append(Folded("Packages", [Table("", ["package", "version"], packages)]))
    if header.script:
        words = ["lossleuth", "run", header.script, *header.arguments]
        blocks.append(Paragraph(f"To run it again: {shlex.join(words)}"))
    return Section("Environment", blocks)


def _time(started: float) -> str:
    return datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d %H:%M UTC")
