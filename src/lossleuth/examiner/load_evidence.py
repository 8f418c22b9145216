"""A saved record as evidence: plain numbers for judges that know neither torch nor files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lossleuth.examiner.printed_numbers import printed_between
from lossleuth.observe.launch.program import ENDING
from lossleuth.record.read import Record
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence

COLUMNS = (
    *("grad_rms", "grad_zero_share", "grad_nonfinite", "weight_rms", "weight_nonfinite"),
    *("update_rms", "update_ratio", "swallowed_share", "epsilon_share", "age"),
)


# Readings of one kind that are held at most, and steps that are held in any case.
MOST_CELLS, FEWEST_STEPS = 1_000_000, 1_000


def evidence_of(
    directory: Path,
    effects: Mapping[Change, Effect] | None = None,
    failed: Mapping[Change, str] | None = None,
) -> Evidence:
    """Everything that a run's record holds for a judge."""
    with Record.open(directory) as record:
        events: dict[str, list[dict[str, Any]]] = {}
        for event in record.events():
            events.setdefault(event.kind, []).append(event.data)
        names = list(record.parameter_names)
        chosen = _chosen(len(record), len(names))
        rows = [row for part in chosen for row in record.rows(part, matrices=False)]
        ended = dict(record.ended or {})
        unfinished = events.get("unfinished", [])
        if unfinished:
            ended["unfinished"] = unfinished[-1]
        columns = {
            c: [row for part in chosen for row in record.matrix(c, part).tolist()]
            for c in COLUMNS
            if c in record.columns
        }
        return Evidence(
            steps=[row.scalars for row in rows],
            parameters=names,
            sizes=[record.parameter_sizes[name] for name in names],
            columns=_without_idle([row.scalars for row in rows], columns),
            windows=events.get("tape", []),
            evaluations=evaluations_of(directory, events),
            settings=settings_of(events.get("settings", [])),
            origins=_last(events, "origins"),
            provenance=_last(events, "provenance"),
            floors=_last(events, "floors"),
            ending=ended | _ending(directory),
            script=record.header.get("script"),
            missing_patches=dict(record.header.get("missing_patches") or {}),
            effects=dict(effects or {}),
            failed=dict(failed or {}),
        )


def _without_idle(
    steps: Sequence[Mapping[str, Any]], columns: dict[str, list[list[float]]]
) -> dict[str, list[list[float]]]:
    """At a rate of 0 there is no update of which anything could be lost.

    >>> _without_idle([{"lr": 0.0}, {"lr": 0.1}], {"swallowed_share": [[1.0], [0.5]]})
    {'swallowed_share': [[nan], [0.5]]}
    """
    lost = columns.get("swallowed_share")
    if lost is None:
        return columns
    kept = [
        [math.nan] * len(row) if step.get("lr") == 0 else row
        for step, row in zip(steps, lost, strict=True)
    ]
    return columns | {"swallowed_share": kept}


def _chosen(steps: int, parameters: int) -> list[slice]:
    """All steps; of a run that is too long to be held, its beginning and its end.

    >>> _chosen(100, 8)
    [slice(None, None, None)]
    """
    most = max(FEWEST_STEPS, MOST_CELLS // max(1, parameters))
    if steps <= most:
        return [slice(None)]
    return [slice(0, most // 2), slice(steps - most // 2, None)]


def evaluations_of(
    directory: Path, events: Mapping[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Evaluations on recorded steps, in the order of the run, with what was printed of them."""
    found = [
        {
            "step": data["step"],
            **data["evaluation"],
            "printed": printed_between(directory, data.get("printed")),
        }
        for kind in ("tape", "evaluation")
        for data in events.get(kind, ())
        if data.get("evaluation")
    ]
    return sorted(found, key=lambda one: int(one["step"]))


def settings_of(declared: list[dict[str, Any]]) -> dict[str, Any]:
    """The latest that knows of optimizers: at the end of a run they may be gone."""
    known = [settings for settings in declared if settings.get("optimizers")]
    return dict((known or declared or [{}])[-1])


def _last(events: Mapping[str, list[dict[str, Any]]], kind: str) -> dict[str, Any]:
    return dict(events[kind][-1]) if events.get(kind) else {}


def _ending(directory: Path) -> dict[str, Any]:
    """What the one who started the process saw of its end, where that was written down."""
    try:
        return {"process": json.loads((directory / ENDING).read_text(encoding="utf-8"))}
    except (OSError, ValueError):
        return {}
