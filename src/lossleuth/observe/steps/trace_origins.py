"""Where weights, tokens, targets and settings of a run came from, as far as files show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lossleuth.observe.provenance.freezing_lines import freezing_place
from lossleuth.observe.provenance.setting_origins import setting_origins
from lossleuth.observe.provenance.value_origins import WeightSample, token_origin, weight_origins
from lossleuth.observe.steps.settings import resolved_settings
from lossleuth.observe.steps.tokens.batches import Batches

# Remember at most this many learning rates.
MAX_RATES = 512


class SeenSettings:
    """Learning rates and clipping limits that the run had, to look for in files at the end."""

    def __init__(self) -> None:
        self.rates: set[float] = set()
        self.limits: set[float] = set()

    def add_rates(self, rates: Sequence[float]) -> None:
        """The rates of an update; of a schedule, so many are enough."""
        if len(self.rates) < MAX_RATES:
            self.rates.update(rates)


@dataclass(frozen=True)
class Known:
    """What was kept of a run to be looked for."""

    weights: dict[str, WeightSample]
    batches: Batches
    settings: SeenSettings
    schedulers: Sequence[Any]


def origins(known: Known, files: Sequence[str]) -> dict[str, Any]:
    """Where the first weights, the first tokens and targets, settings and freezing come from."""
    row = known.batches.row
    schedules = resolved_settings([], known.schedulers)["schedulers"]
    numbers = [v for s in schedules for v in s["settings"].values()]
    settings = {
        "lr": sorted(known.settings.rates),
        "clip": sorted(known.settings.limits),
        "schedule": [float(v) for v in numbers if isinstance(v, int) and v > 1],
    }
    return {
        "weights": weight_origins(known.weights, files),
        "tokens": token_origin(known.batches.runs, files, row=row),
        "targets": token_origin(known.batches.target_runs, files, row=row),
        "settings": setting_origins(settings, files),
        "freezing": freezing_place(),
    }
