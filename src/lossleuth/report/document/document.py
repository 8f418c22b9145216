"""The whole report of a run, as blocks, in the order in which a person wants to read it."""

from __future__ import annotations

from lossleuth.report.document.answer import answer, proof, ruled_out
from lossleuth.report.document.blocks import Document
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.glance import glance
from lossleuth.report.document.limits import limits
from lossleuth.report.document.precision import precision


def document_of(facts: Facts) -> Document:
    """Answer, proof, what it is not, the run at a glance, its precision, what was not tested."""
    parts = [answer(facts), proof(facts), ruled_out(facts), glance(facts), precision(facts)]
    parts += limits(facts)
    script = str(facts.header.get("script", "")) or "a run"
    seconds = f" in {facts.verdict.seconds:.0f} s" if facts.verdict.seconds else ""
    return Document(
        f"lossleuth: {script.replace(chr(92), '/').rsplit('/', 1)[-1]}",
        f"{script} · {facts.verdict.steps} steps observed{seconds}",
        [part for part in parts if part is not None],
    )
