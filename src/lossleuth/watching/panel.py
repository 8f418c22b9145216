"""A few lines at the foot of the terminal while a script runs.

The script keeps the terminal above them for itself: the foot is cut off by a scroll region, and
each drawing is one write that puts the cursor back, so that prints and progress bars of the
script are neither moved nor mixed.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from pathlib import Path
from types import TracebackType

import numpy as np

from lossleuth.record.read import Record
from lossleuth.types.errors import BadInput
from lossleuth.watching.alarms import alarms, series

HEIGHT = 6
MIN_ROWS = 20
BARS = "▁▂▃▄▅▆▇█"


class Panel:
    """The foot of the terminal, if there is one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._record: Record | None = None
        self._rows = 0
        terminal = sys.stdout.isatty() and sys.stderr.isatty()
        tall = shutil.get_terminal_size().lines >= MIN_ROWS
        self.shown = terminal and tall and os.environ.get("TERM", "dumb") != "dumb"

    def __enter__(self) -> Panel:
        if self.shown:
            self._cut_off()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.shown:
            erase = "".join(f"\x1b[{self._rows - i};1H\x1b[2K" for i in range(HEIGHT))
            self._write(f"\x1b7\x1b[r{erase}\x1b8")

    def draw(self) -> None:
        """Draw what the record says now."""
        if shutil.get_terminal_size().lines != self._rows:
            self._cut_off()
        lines = panel_lines(self._read(), shutil.get_terminal_size().columns)
        lines += [""] * (HEIGHT - len(lines))
        top = self._rows - HEIGHT + 1
        drawn = "".join(f"\x1b[{top + i};1H\x1b[2K{line}" for i, line in enumerate(lines))
        self._write(f"\x1b7{drawn}\x1b8")

    def _cut_off(self) -> None:
        """Leave the script all rows but the last few."""
        self._rows = shutil.get_terminal_size().lines
        last = self._rows - HEIGHT
        # Scroll first, so that the cursor is above the foot, wherever it was.
        feed = "\n" * HEIGHT
        self._write(f"{feed}\x1b[{HEIGHT}A\x1b7\x1b[1;{last}r\x1b8")

    def _write(self, text: str) -> None:
        try:
            os.write(sys.stderr.fileno(), text.encode())
        except OSError:
            self.shown = False

    def _read(self) -> Record | None:
        try:
            if self._record is None:
                self._record = Record.open(self._directory)
            else:
                self._record.refresh()
        except BadInput:
            return None
        return self._record


def panel_lines(record: Record | None, width: int) -> list[str]:
    """What the foot shows: at most `HEIGHT` lines of at most `width` characters."""
    if record is None or not len(record.steps):
        return ["lossleuth: waiting for the first step"]
    lines = [_progress(record), _gradient_flow(record, width), _movement(record)]
    lines += [f"! {sentence}" for sentence in alarms(record)]
    return [_plain(line)[: width - 1] for line in lines[:HEIGHT]]


def _progress(record: Record) -> str:
    loss, classes, unigram = (_last(record, n) for n in ("loss", "classes", "unigram"))
    floors = []
    if math.isfinite(classes) and classes > 0:
        floors.append(f"ln V {math.log(classes):.3f}")
    if math.isfinite(unigram):
        floors.append(f"unigram {unigram:.3f}")
    against = f" against {', '.join(floors)}" if floors else ""
    return (
        f"lossleuth: step {int(record.steps[-1])}  loss {loss:.4f}{against}  "
        f"{_last(record, 'tokens_per_second'):,.0f} tokens/s"
    )


def _gradient_flow(record: Record, width: int) -> str:
    """RMS of each parameter's gradient, first to last, as bars on a logarithmic scale."""
    if "grad_rms" not in record.columns:
        return ""
    values = record.matrix("grad_rms", slice(-1, None))[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(values)
    usable = np.isfinite(logs)
    if not usable.any():
        return "gradient by depth: none"
    room = max(8, width - 50)
    chosen = np.linspace(0, len(logs) - 1, min(room, len(logs))).round().astype(int)
    low, high = float(logs[usable].min()), float(logs[usable].max())
    span = max(high - low, 1.0)
    bars = "".join(
        BARS[int((logs[i] - low) / span * (len(BARS) - 1))] if usable[i] else "·" for i in chosen
    )
    return f"gradient by depth {bars} 1e{low:+.1f} to 1e{high:+.1f}"


def _movement(record: Record) -> str:
    factors = series(record, "clip_factor")
    called = np.isfinite(factors)
    clipped = f"clipped {np.mean(factors[called] < 1):.0%} of steps" if called.any() else "no clip"
    ratio = math.nan
    if "update_ratio" in record.columns:
        ratios = record.matrix("update_ratio", slice(-1, None))[0]
        ratio = float(np.nanmedian(ratios)) if np.isfinite(ratios).any() else math.nan
    return f"update/weight {ratio:.1e}  lr {_last(record, 'lr'):.2e}  {clipped}"


def _last(record: Record, name: str) -> float:
    values = series(record, name)
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else math.nan


def _plain(line: str) -> str:
    """Names come from the user's program: nothing in them may move the cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)
