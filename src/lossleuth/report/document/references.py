"""The losses of what was trained on the batches of a run, for its chart."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from lossleuth.examiner.saved_examination import SavedExamination
from lossleuth.report.document.matrix import Floats
from lossleuth.run_directory import RunDirectory
from lossleuth.types.errors import BadInput
from lossleuth.types.yardstick import Yardstick

TRANSFORMER, NGRAMS = "a plain transformer on the same batches", "n-grams on the same batches"


def references(directory: Path) -> dict[str, tuple[Floats, Floats]]:
    """Steps and losses of each, one phase after the other; empty where there are none."""
    found: dict[str, tuple[list[float], list[float]]] = {TRANSFORMER: ([], []), NGRAMS: ([], [])}
    saved = None
    with suppress(BadInput):
        saved = SavedExamination.read(RunDirectory(directory))
    for look in saved.looks if saved is not None else ():
        known, first = look.yardstick or Yardstick(), look.phase.first if look.phase else 0
        for name, steps, losses in (
            (TRANSFORMER, known.steps, known.losses),
            (NGRAMS, known.mixture_steps, known.mixture),
        ):
            found[name][0].extend(float(first + step) for step in steps)
            found[name][1].extend(losses)
    return {name: (np.array(xs), np.array(ys)) for name, (xs, ys) in found.items() if xs}
