"""The report's section on precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from made_runs import found_on, record, verdict

from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.precision import OperationError
from lossleuth.record.write import RecordWriter
from lossleuth.report.document.blocks import Paragraph, Table
from lossleuth.report.document.document import document_of
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.load_facts import facts_of
from lossleuth.report.document.matrix import Matrix
from lossleuth.report.document.precision import precision
from lossleuth.report.render.html import rendered as html
from lossleuth.report.render.markdown import rendered as markdown


def truth(floor: float, untested: str | None = None) -> GradientTruth:
    """A gradient that is right but for rounding."""
    return GradientTruth(
        error=floor,
        floor=floor,
        cosine=1.0,
        scale=1.0,
        parameters=(),
        untested=untested,
    )


WORST_STEP = found_on(
    3,
    truth(2.5e-7),
    truth(0.9, untested="no"),
    OperationError("exp", "net.py", 7, None, "bfloat16", 0.002),
    OperationError("mm", None, None, None, "float32", 1e-7),
    OperationError("exp", "net.py", 7, None, "bfloat16", 1e-9),
)
BETTER_STEP = found_on(1, truth(1e-8))


def of_columns(**columns: list[float]) -> Facts:
    made = {
        name: Matrix(["a", "b"], [0], np.array(values)[:, None]) for name, values in columns.items()
    }
    return Facts(verdict(), matrices=made)


def test_a_run_without_figures_has_no_section() -> None:
    assert precision(Facts(verdict())) is None


def test_rounding_is_that_of_the_worst_recorded_step(tmp_path: Path) -> None:
    record(tmp_path, [3.0, 2.0], events=[WORST_STEP, BETTER_STEP])
    section = precision(facts_of(tmp_path, verdict()))
    assert section is not None and section.title == "Precision"
    rounding, operations = section.blocks[0], section.blocks[1]
    assert isinstance(rounding, Paragraph) and "error of the gradient: 2.5e-07" in rounding.text
    assert isinstance(operations, Table)
    assert operations.rows[0] == ["exp", "bfloat16", "net.py:7", "0.002"]
    assert operations.rows[1] == ["mm", "float32", "", "1e-07"]
    assert len(operations.rows) == 2


def test_headroom_is_shown_for_what_was_recorded() -> None:
    section = precision(
        of_columns(grad_max=[1.0, 65504.0], grad_rms=[1e-9, 1.0], weight_rms=[1, 2])
    )
    assert section is not None
    (table,) = section.blocks
    assert isinstance(table, Table)
    gradients, weights = table.rows
    assert gradients[0] == "gradients" and gradients[2] == "0" and gradients[4] == "becomes 0"
    assert weights[1] == "about 2" and weights[2] == "15" and weights[4] == "kept"


def test_activations_beyond_float16_have_no_room(tmp_path: Path) -> None:
    columns, modules = ["rms", "max", "zero_share"], {"block": [1.0, 131072.0, 0.0]}
    event = {"step": 0, "columns": columns, "modules": modules}
    record(tmp_path, [3.0], events=[("activations", event)])
    section = precision(facts_of(tmp_path, verdict()))
    assert section is not None
    table = next(block for block in section.blocks if isinstance(block, Table))
    row = next(row for row in table.rows if row[0] == "activations")
    assert row[2] == "-1" and row[4] == "not recorded"


def test_it_is_in_both_formats_of_the_report(tmp_path: Path) -> None:
    writer = RecordWriter.create(tmp_path, {"script": "train.py"}, warn=print)
    writer.parameters(["wte"], [4], ["grad_max"])
    writer.step({"step": 0, "loss": 1.0}, np.array([[0.5]]))
    writer.event(*WORST_STEP)
    writer.end({"how": "exit"})
    document = document_of(facts_of(tmp_path, verdict()))
    assert [s.title for s in document.sections].index("Precision") == 4
    for text in (html(document), markdown(document)):
        assert "Precision" in text and "2.5e-07" in text and "float16" in text
