"""The whole report of a run, as blocks in reading order."""

from __future__ import annotations

from lossleuth.report.document.answer import answer, challenges, proof, ruled_out
from lossleuth.report.document.appendix import appendix
from lossleuth.report.document.blocks import Document
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.glance import glance
from lossleuth.report.document.precision import precision
from lossleuth.report.document.sentences import run_length


def document_of(facts: Facts) -> Document:
    """Answer, proof, challenges, ruled-out causes, charts of the run, precision, appendix."""
    parts = [answer(facts), proof(facts), challenges(facts), ruled_out(facts), glance(facts)]
    parts += [precision(facts), *appendix(facts)]
    script = facts.header.script or "a run"
    return Document(
        f"lossleuth: {script.replace(chr(92), '/').rsplit('/', 1)[-1]}",
        f"{script} · {run_length(facts.verdict)}",
        [part for part in parts if part is not None],
    )
