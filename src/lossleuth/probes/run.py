"""Run probes on a recorded step."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial
from importlib import import_module

import lossleuth.probes
from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.finding import Finding
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.no_autograd import HandStep
from lossleuth.findings.recorded_step import Part, RecordedStep
from lossleuth.probes.analysis import LOOK_SHARE, MAX_STOPS, PROBE_SHARE, Analysis, RunMemory
from lossleuth.probes.probe import Found, Probe
from lossleuth.tape.deadline import OutOfTime, Watchdog
from lossleuth.tape.replay.hidden_copies import link_copies
from lossleuth.tape.replay.link_outside import link_outside
from lossleuth.tape.window import Window


@cache
def probes() -> tuple[Probe, ...]:
    """Every probe, from the files of this package that have one.

    >>> "gradient_truth" in [probe.id for probe in probes()]
    True
    """
    found = pkgutil.walk_packages(lossleuth.probes.__path__, "lossleuth.probes.")
    modules = [import_module(module.name) for module in found if module.name.count(".") == 3]
    return tuple(module.PROBE for module in modules if hasattr(module, "PROBE"))


def run_probes(window: Window, memory: RunMemory | None = None) -> RecordedStep:
    """Run every probe; one that fails is named under `errored` and does not stop the others.

    So is one that takes too long. Recorded steps of one run share a `memory`.
    """
    wanted = [probe for probe in probes() if not probe.without_autograd]
    left = (gradient for run in window.backwards for gradient in run.after.values())
    gradients = [gradient for gradient in left if gradient is not None]

    def prepare() -> None:
        link_outside(window.tape)
        link_copies(window.tape, gradients)

    return _run(window, wanted, Analysis(window, memory), prepare=prepare)


def measure_true_loss(window: Window, memory: RunMemory | None = None) -> RecordedStep:
    """The true loss alone."""
    analysis = Analysis(window, memory)
    link = partial(link_outside, window.tape)
    return _run(window, _finding({TrueLoss}), analysis, "true_loss", prepare=link)


def look_at_evaluation(window: Window, memory: RunMemory | None = None) -> RecordedStep:
    """Measure evaluations alone."""
    analysis = Analysis(window, memory)
    link = partial(link_outside, window.tape)
    return _run(window, _finding({Evaluation}), analysis, "evaluation", prepare=link)


def look_at_hand_step(
    window: Window,
    names: Callable[[Window], dict[int, str]],
    memory: RunMemory | None = None,
) -> RecordedStep:
    """Run the probes for a step without autograd."""
    return _run(window, _finding({HandStep}), Analysis(window, memory, names))


def _finding(kinds: Collection[type[Finding]]) -> list[Probe]:
    return [probe for probe in probes() if probe.finds in kinds]


def _run(
    window: Window,
    wanted: Sequence[Probe],
    analysis: Analysis,
    part: Part = "tape",
    prepare: Callable[[], object] = lambda: None,
) -> RecordedStep:
    found: list[Finding] = []
    errored: dict[str, str] = {}
    memory = analysis.memory
    allowed = memory.look_seconds()
    until = time.monotonic() + allowed
    with analysis, Watchdog() as watchdog:
        try:
            watchdog.call(prepare, allowed)
        except OutOfTime:
            return RecordedStep(window.step, [], _too_late(wanted, allowed), part=part)
        for probe in wanted:
            left = until - time.monotonic()
            seconds = min(left, allowed * PROBE_SHARE / LOOK_SHARE)
            if memory.stops[probe.id] >= MAX_STOPS:
                errored[probe.id] = "stopped on earlier steps, because it took too long"
                continue
            if left <= 0:
                errored |= _too_late([probe], allowed)
                continue
            try:
                found += watchdog.call(partial(_found, probe, analysis), seconds)
            except OutOfTime:
                memory.stops[probe.id] += 1
                errored[probe.id] = f"stopped after {seconds:.2g} s"
            except Exception as error:
                # An internal error must not lose what the others found.
                errored[probe.id] = f"{type(error).__name__}: {error}"
    return RecordedStep(window.step, found, errored, part=part)


def _too_late(probes: Iterable[Probe], allowed: float) -> dict[str, str]:
    return {probe.id: f"not run: others took all {allowed:.2g} s" for probe in probes}


def _found(probe: Probe, analysis: Analysis) -> list[Finding]:
    return _several(probe.run(analysis))


def _several(found: Found) -> list[Finding]:
    if found is None:
        return []
    return [found] if isinstance(found, Finding) else list(found)
