"""The last part of a report: what was not tested, the settings, and how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from lossleuth.report.document.blocks import Block, Bullets, Folded, Paragraph, Section, Table
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.numbers import shown
from lossleuth.types.judgement import Status


def limits(facts: Facts) -> list[Section]:
    """What a reader needs to know before believing, and to do it again."""
    return [_untested(facts), _settings(facts), _environment(facts)]


def _untested(facts: Facts) -> Section:
    verdict = facts.verdict
    blocks: list[Block] = []
    untested = verdict.of(Status.UNTESTED)
    if untested:
        blocks.append(Bullets([(", ".join(i), why) for i, why in verdict.reasons(Status.UNTESTED)]))
    else:
        blocks.append(Paragraph("Every cause of the catalogue was tested."))
    errored = verdict.of(Status.ERRORED)
    if errored:
        blocks.append(Paragraph("Our own failures, which cost these causes:", strong=True))
        blocks.append(Bullets([(i, verdict.judgements[i].because) for i in errored]))
    if facts.problem:
        blocks.append(Paragraph(f"The record is not whole: {facts.problem}."))
    return Section("What was not tested, and why", blocks)


def _settings(facts: Facts) -> Section:
    places = facts.origins.get("settings") or {}
    rows = _rates(facts)
    for number, optimizer in enumerate(facts.settings.get("optimizers", ())):
        name = str(optimizer.get("class", f"optimizer {number + 1}"))
        place = str(optimizer.get("place") or "")
        for index, group in enumerate(optimizer.get("groups", ())):
            label = name if len(optimizer["groups"]) == 1 else f"{name}, group {index + 1}"
            for key, value in group.items():
                if value is not None:
                    rows.append([f"{label}: {key}", _value(value), _source(places, key) or place])
    for scheduler in facts.settings.get("schedulers", ()):
        name = str(scheduler.get("class", "schedule"))
        for key, value in scheduler.items():
            if key not in ("class", "module", "place") and value is not None:
                place = str(scheduler.get("place") or "")
                rows.append([f"{name}: {key}", _value(value), place])
    blocks: list[Block] = []
    if rows:
        head = ["setting", "value at run time", "where it comes from"]
        blocks.append(Table("", head, rows))
    else:
        blocks.append(Paragraph("No optimizer of torch has made an update."))
    weights = (facts.origins.get("weights") or {}).get("files") or []
    if weights:
        items = [(str(w.get("file", w)), _share(w)) for w in weights]
        blocks += [Paragraph("First weights stand in these files:"), Bullets(items)]
    for what in ("tokens", "targets"):
        found = facts.origins.get(what)
        if found:
            blocks.append(Paragraph(f"The {what} stand in {found.get('file')}."))
    return Section("Settings", blocks)


def _rates(facts: Facts) -> list[list[str]]:
    """The first and the last rate that was used: a schedule moves it in between."""
    rates = facts.of("lr")
    rates = rates[np.isfinite(rates)]
    if not len(rates):
        return []
    place = _source(facts.origins.get("settings") or {}, "lr")
    first, last = shown(float(rates[0])), shown(float(rates[-1]))
    told = first if first == last else f"{first} at first, {last} at last"
    return [["learning rate", told, place]]


def _source(places: Mapping[str, Any], key: str) -> str:
    found = places.get(key)
    if isinstance(found, Mapping):
        line = found.get("line")
        return f"{found.get('file')}:{line}" if line else str(found.get("file", ""))
    return str(found) if found else ""


def _share(weights: Any) -> str:
    share = weights.get("share") if isinstance(weights, Mapping) else None
    return f"{share:.0%} of all weights" if isinstance(share, float) else ""


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _environment(facts: Facts) -> Section:
    header = facts.header
    git = header.get("git") or {}
    rows = [
        ["script", str(header.get("script", ""))],
        ["working directory", str(header.get("working_directory", ""))],
        ["Python", f"{header.get('python', '')} on {header.get('platform', '')}"],
        ["git commit", f"{git.get('commit', '')}{' with changes' if git.get('changed') else ''}"],
        ["started", _time(header.get("started"))],
        ["record", facts.state],
        ["steps", str(facts.verdict.steps)],
        ["seconds", f"{facts.verdict.seconds:.0f}" if facts.verdict.seconds else ""],
    ]
    rows = [row for row in rows if row[1].strip(" on")]
    blocks: list[Block] = [Table("", ["what", "value"], rows)]
    if facts.packages:
        packages = [[name, version] for name, version in sorted(facts.packages.items())]
        blocks.append(Folded("Packages", [Table("", ["package", "version"], packages)]))
    script = header.get("script")
    if script:
        words = ["lossleuth", "run", str(script), *map(str, header.get("arguments", ()))]
        blocks.append(Paragraph(f"To run it again: {shlex.join(words)}"))
    return Section("Environment", blocks)


def _time(started: Any) -> str:
    if not isinstance(started, int | float):
        return ""
    return datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d %H:%M UTC")
