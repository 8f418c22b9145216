"""Has a yardstick made in a process of its own, after the program was observed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lossleuth.findings.data import Alignment, Padding
from lossleuth.findings.loss import TrueLoss
from lossleuth.judge.yardstick import why_no_yardstick
from lossleuth.process_tree import kill, start
from lossleuth.types.evidence import Evidence
from lossleuth.types.plain import NotOfThisType, from_plain
from lossleuth.types.yardstick import Yardstick
from lossleuth.yardstick.order import Order

# What the process may take beyond its time, to load torch at first and to print at last.
GRACE_SECONDS = 20.0
COMMAND = ("-m", "lossleuth.yardstick.child")
# Findings that are looked at here.
READS = (Alignment, Padding, TrueLoss)


def yardstick_of(
    evidence: Evidence, batches: Path, seconds: float, progress: Callable[[str], None]
) -> Yardstick | None:
    """What references make of the batches of a run; None where none were kept of it."""
    if not batches.exists():
        return None
    reason = why_no_yardstick(evidence)
    if reason is not None:
        return Yardstick(reason)
    progress("training a plain transformer on the same batches, to compare")
    return measured(order_for(evidence, batches, time.time() + seconds), seconds)


def order_for(evidence: Evidence, batches: Path, until: float) -> Order:
    """What is known of the batches of this run, or of this phase of it."""
    phase = evidence.phase
    first = 0 if phase is None else phase.first
    pads = [p.token for p in evidence.all(Padding) if p.token is not None and not p.supervised_pads]
    alignments = dict(evidence.by_step(Alignment))
    return Order(
        str(batches),
        first,
        first + max(step.step for step in evidence.steps),
        trained=sum(evidence.sizes),
        vocabulary=max((t.vocabulary or 0 for t in evidence.all(TrueLoss)), default=0),
        until=until,
        pad=next(iter(pads), None),
        time_axis=next((a.time_axis for a in alignments.values()), 1),
        supervised={step: a.supervised for step, a in alignments.items()},
    )


def measured(order: Order, seconds: float) -> Yardstick:
    """What the process says that carries out an order; it is ended where it takes too long."""
    with tempfile.TemporaryFile() as said:
        process = None
        try:
            process = start(
                [sys.executable, *COMMAND, order.text],
                streams=(subprocess.DEVNULL, said, subprocess.DEVNULL),
            )
            process.wait(timeout=seconds + GRACE_SECONDS)
            said.seek(0)
            return from_plain(Yardstick, json.loads(said.read()))
        except subprocess.TimeoutExpired:
            return Yardstick("the reference was not trained in time")
        except (OSError, ValueError, NotOfThisType):
            # Our failure, and no reason against the run.
            return Yardstick("the reference could not be trained, which is our fault")
        finally:
            if process is not None:
                kill(process)
