"""The run at a glance."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from made_runs import record, true_losses, verdict

from lossleuth.examiner.saved_examination import SavedExamination, SavedLook
from lossleuth.report.document.blocks import Chart, HeatMap, Paragraph, Table
from lossleuth.report.document.facts import Facts
from lossleuth.report.document.glance import glance
from lossleuth.report.document.load_facts import facts_of
from lossleuth.report.document.matrix import Matrix
from lossleuth.report.document.references import NGRAMS, TRANSFORMER
from lossleuth.run_directory import RunDirectory
from lossleuth.types.yardstick import Yardstick


def blocks(tmp_path: Path, losses: list[float], **options: object) -> list[object]:
    record(tmp_path, losses, **options)  # type: ignore[arg-type]  # options of a record
    return list(glance(facts_of(tmp_path, verdict())).blocks)


def chart(found: list[object], title: str) -> Chart:
    return next(b for b in found if isinstance(b, Chart) and b.title == title)


def test_the_loss_stands_against_what_the_data_allow(tmp_path: Path) -> None:
    events = [*true_losses((1, 2.0)), ("floors", {"unigram": 1.9, "bigram": 1.2})]
    loss = chart(blocks(tmp_path, [3.0, 2.0], events=events), "Loss")
    assert [(level.name, round(level.y, 3)) for level in loss.levels] == [
        ("ln 8", 2.079),
        ("unigram", 1.9),
        ("bigram", 1.2),
    ]
    assert [(s.name, s.dots) for s in loss.series] == [
        ("loss passed to backward", False),
        ("true loss", True),
    ]


def test_references_on_the_same_batches_are_lines_beside_it(tmp_path: Path) -> None:
    record(tmp_path, [3.0, 2.0])
    made = Yardstick(steps=(0, 1), losses=(2.9, 1.5), mixture_steps=(0,), mixture=(3.1,))
    SavedExamination([SavedLook(["."], yardstick=made)]).write(RunDirectory(tmp_path))
    loss = chart(list(glance(facts_of(tmp_path, verdict())).blocks), "Loss")
    assert [(s.name, list(s.ys)) for s in loss.series[1:]] == [
        (TRANSFORMER, [2.9, 1.5]),
        (NGRAMS, [3.1]),
    ]


def test_a_loss_that_is_followed_in_parts_is_said_to_be_a_part(tmp_path: Path) -> None:
    loss = chart(blocks(tmp_path, [0.75, 0.5], events=true_losses((0, 3.0), (1, 2.0))), "Loss")
    assert loss.series[0].name == "loss passed to backward (0.25 times the true loss)"


def test_perplexity_is_that_of_the_true_loss_and_never_capped(tmp_path: Path) -> None:
    found = blocks(tmp_path, [50.0], events=true_losses((0, 50.0)))
    table = next(b for b in found if isinstance(b, Table))
    assert table.rows[1][1] == f"{math.exp(50):.4g}"
    assert table.rows[2] == ["bits per token", f"{50 / math.log(2):.4g}"]


def test_without_a_true_loss_no_perplexity_is_shown(tmp_path: Path) -> None:
    found = blocks(tmp_path, [3.0])
    assert not any(isinstance(b, Table) for b in found)
    assert "True loss unknown" in repr(found)


def test_what_the_script_reads_is_drawn_where_it_is_another_number(tmp_path: Path) -> None:
    reads = {"reads": [[3.0, "train.py:7"], [12.0, "train.py:8"]]}
    found = blocks(tmp_path, [3.0, 3.0], scalars=reads, events=true_losses((1, 3.0)))
    names = [s.name for s in chart(found, "Loss").series]
    assert names == ["loss passed to backward", "read at train.py:8", "true loss"]
    read = [b.text for b in found if isinstance(b, Paragraph)][:1]
    assert read == ["At train.py:8 the script reads 12, 4 times the true loss: see label_offset."]


def test_gradient_flow_and_effective_step_come_from_the_parameters(tmp_path: Path) -> None:
    found = blocks(tmp_path, [3.0, 2.0])
    flow, ratio = (b for b in found if isinstance(b, HeatMap))
    assert (flow.rows, flow.steps) == (["wte", "head"], [0, 1])
    assert flow.values == [[1e-3, 2e-3], [1e-3, 2e-3]]
    assert ratio.title == "Update-to-weight ratio"
    step = chart(found, "Effective step")
    assert step.series[1].ys == [1.0, 2.0]


def test_gradient_norm_and_clip_factor_are_shown(tmp_path: Path) -> None:
    found = blocks(tmp_path, [3.0, 2.0], scalars={"grad_norm": 8.0, "clip_factor": 0.125})
    assert "Clip factor: 0.125 at every step." in repr(found)
    assert "Gradient norm: 8 at every step." in repr(found)


def test_what_was_not_recorded_has_no_picture(tmp_path: Path) -> None:
    found = blocks(tmp_path, [3.0], parameters=())
    assert [b.title for b in found if isinstance(b, Chart)] == ["Loss"]
    assert "Learning rate: 0.001 at every step." in repr(found)
    assert not any(isinstance(b, HeatMap) for b in found)


def test_a_run_without_a_step_says_so() -> None:
    assert "No optimizer step" in repr(glance(Facts(verdict())).blocks)


def test_a_long_run_says_how_its_points_were_chosen(tmp_path: Path) -> None:
    loss = chart(blocks(tmp_path, [1.0] * 1000, parameters=()), "Loss")
    assert loss.note.startswith("1000 steps")
    assert len(loss.series[0].xs) <= 400


def test_gradients_that_are_all_0_are_a_sentence() -> None:
    matrix = Matrix(["w"], [0, 1], np.zeros((1, 2)))
    facts = Facts(verdict(), steps=np.arange(2.0), matrices={"grad_rms": matrix})
    blocks = glance(facts).blocks
    assert "Gradient flow: 0 for every parameter" in repr(blocks)
    # Nothing was differentiated, and nothing is drawn of it.
    assert chart(list(blocks), "Loss").series == []


def test_further_notes_are_sentences() -> None:
    notes = ("the loss falls", "the loss spikes at step 1")
    facts = Facts(replace(verdict(), notes=notes), steps=np.arange(2.0))
    texts = [b.text for b in glance(facts).blocks if isinstance(b, Paragraph)]
    assert texts[0] == "The loss spikes at step 1."
    assert "The loss falls." not in texts
