"""The short form of a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from made_runs import verdict

from lossleuth.judge.verdict import Verdict
from lossleuth.report.document.blocks import Answer, Paragraph, Source
from lossleuth.report.document.summary import MIN_GROUP, summary
from lossleuth.types.judgement import Judgement, Status


def paragraphs(found: Verdict) -> list[str]:
    return [b.text for part in summary(found) for b in part.blocks if isinstance(b, Paragraph)]


def test_parts_come_in_reading_order(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("loss = f(x)\n")
    parts = summary(replace(verdict(script=str(script)), notes=("the loss falls", "a note")))
    assert [part.title for part in parts] == [
        "",
        "1. label_offset: proven",
        "2. lr_too_high: proven",
        "3. clip_too_tight: benign",
        "",
        "",
        "",
    ]
    assert isinstance(parts[0].blocks[0], Answer)
    because, source, remedy = parts[1].blocks
    assert isinstance(because, Paragraph) and because.text.startswith("Targets are at offset 2")
    assert isinstance(source, Source) and source.lines[0] == "loss = f(x)"
    assert remedy == Paragraph("Remedy: Shift once.")
    assert parts[4].blocks == [Paragraph("A note.")]
    assert parts[5].blocks == [
        Paragraph("Ruled out: overflow."),
        Paragraph("Not tested: batch_leak."),
        Paragraph("Internal errors while judging: ascent."),
    ]
    assert parts[6].blocks == [Paragraph("8 steps observed in 2 s.")]


def test_a_place_without_readable_source_is_named() -> None:
    parts = summary(verdict(script="gone.py", line=3))
    assert parts[1].blocks[1] == Source("gone.py:3 in head", 1, (), 1)


def test_many_causes_with_one_reason_share_a_sentence() -> None:
    def ruled_out(count: int) -> list[str]:
        alike = {f"teacher_{i}": Judgement(Status.REFUTED, "no teacher") for i in range(count)}
        return paragraphs(replace(verdict("healthy"), judgements=alike))[:-1]

    assert ruled_out(MIN_GROUP) == ["teacher_0 and 3 similar causes ruled out: no teacher."]
    assert ruled_out(MIN_GROUP - 1) == ["Ruled out: teacher_0, teacher_1, teacher_2."]
    assert ruled_out(0) == []
