"""Watch a script in this process and time every step, every recorded window and every probe.

python -m bench._timed_windows RESULT STEP SCRIPT [ARGS...]
python -m bench._timed_windows RESULT bare SCRIPT [ARGS...]

The second form does not watch, and times the updates of optimizers alone. Used by
`bench.window_cost`, in a process of its own for each script. Times are processor time: other work
on the machine does not count.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.observe.child.watch import Watch
from lossleuth.observe.request import WatchRequest
from lossleuth.observe.steps.recording import Recording
from lossleuth.probes import run as running
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.probe import Found, Probe
from lossleuth.tape.window import Window


class Clock:
    """What each step and each window took."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = []
        self.windows: dict[int, dict[str, Any]] = {}
        self.probes: dict[str, float] = {}
        self._began = process_time()

    def timed(self, probe: Probe) -> Probe:
        """The probe, with its time kept."""

        def run(analysis: Analysis) -> Found:
            began = process_time()
            try:
                found = probe.run(analysis)
                return found if found is None or not hasattr(found, "__iter__") else list(found)
            finally:
                self.probes[probe.id] = process_time() - began

        return replace(probe, run=run)

    def looking(self, look: Callable[..., RecordedStep]) -> Callable[..., RecordedStep]:
        """`run_probes`, with what it took and found."""

        def looked(window: Window, *given: Any) -> RecordedStep:
            self.probes.clear()
            began = process_time()
            found = look(window, *given)
            self.windows[window.step] = {
                "operations": len(window.tape.operations),
                "seconds": process_time() - began,
                "probes": dict(self.probes),
                "found": found.plain(),
            }
            return found

        return looked

    def ending(self, end: Callable[..., Any]) -> Callable[..., Any]:
        """`Recording.end`, which every step ends with."""

        def ended(recording: Recording, step: int, names: Any) -> Any:
            self.steps.append((step, process_time() - self._began))
            found = end(recording, step, names)
            self._began = process_time()
            return found

        return ended


def main(result: str, step: str, script: str, *arguments: str) -> None:
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    if step == "bare":
        bare(result, script)
    else:
        watched(result, int(step), script)


def bare(result: str, script: str) -> None:
    """When each update was made, without us."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    updates: list[float] = []
    register_optimizer_step_post_hook(lambda *_: updates.append(process_time()))
    runpy.run_path(script, run_name="__main__")
    Path(result).write_text(json.dumps(updates))


def watched(result: str, step: int, script: str) -> None:
    """What steps, windows and probes took."""
    clock = Clock()
    known = tuple(map(clock.timed, running.probes()))
    running.probes = lambda: known  # type: ignore[assignment]  # without its cache
    from lossleuth.observe.steps import recording

    recording.run_probes = clock.looking(recording.run_probes)  # type: ignore[assignment]  # timed
    Recording.end = clock.ending(Recording.end)  # type: ignore[method-assign]  # timed
    request = WatchRequest(str(Path(tempfile.mkdtemp()) / "run"), {}, os.getpid(), tape=(step,))
    watch = Watch(request, main=True)
    watch.start(until_exit=False)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        watch.finish({"how": "end of script"})
        told = {"steps": clock.steps, "windows": clock.windows}
        Path(result).write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
