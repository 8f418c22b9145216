"""Run probes on a recorded step."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Collection, Iterable
from functools import cache
from importlib import import_module

import lossleuth.probes
from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.finding import Finding, name_of
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.no_autograd import HandStep
from lossleuth.findings.recorded_step import Part, RecordedStep
from lossleuth.probes.analysis import Analysis, RunMemory
from lossleuth.probes.probe import Found, Probe
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

    Recorded steps of one run share a `memory`.
    """
    wanted = [probe for probe in probes() if not probe.without_autograd]
    link_outside(window.tape)
    link_copies(window.tape)
    return _run(window, wanted, Analysis(window, memory))


def measure_true_loss(window: Window) -> RecordedStep:
    """The true loss alone."""
    link_outside(window.tape)
    return _run(window, _finding({TrueLoss}), Analysis(window), "true_loss")


def look_at_evaluation(window: Window) -> RecordedStep:
    """Measure evaluations alone."""
    link_outside(window.tape)
    return _run(window, _finding({Evaluation}), Analysis(window), "evaluation")


def look_at_hand_step(window: Window, names: Callable[[Window], dict[int, str]]) -> RecordedStep:
    """Run the probes for a step without autograd."""
    return _run(window, _finding({HandStep}), Analysis(window, names=names))


def _finding(kinds: Collection[type[Finding]]) -> list[Probe]:
    return [probe for probe in probes() if probe.finds in kinds]


def _run(
    window: Window, wanted: Iterable[Probe], analysis: Analysis, part: Part = "tape"
) -> RecordedStep:
    found: list[Finding] = []
    errored: dict[str, str] = {}
    with analysis:
        for probe in wanted:
            try:
                found += _several(probe.run(analysis))
            except Exception as error:
                # An internal error must not lose what the others found.
                errored[name_of(probe.finds)] = f"{type(error).__name__}: {error}"
    return RecordedStep(window.step, found, errored, part=part)


def _several(found: Found) -> list[Finding]:
    if found is None:
        return []
    return [found] if isinstance(found, Finding) else list(found)
