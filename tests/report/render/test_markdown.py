"""Reports as Markdown."""

from __future__ import annotations

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from made_runs import record, true_losses, verdict

from lossleuth.report.document.blocks import (
    Answer,
    Block,
    Bullets,
    Chart,
    Diff,
    Document,
    Folded,
    HeatMap,
    Level,
    Paragraph,
    Section,
    Series,
    Source,
    Table,
)
from lossleuth.report.document.document import document_of
from lossleuth.report.document.load_facts import facts_of
from lossleuth.report.render.markdown import escaped, rendered


def written(*blocks: Block) -> list[str]:
    text = rendered(Document("t", "s", [Section("", blocks)]))
    return text.splitlines()[4:]


def test_every_block_has_its_form() -> None:
    assert written(Paragraph("a_b"), Paragraph("1. now", strong=True)) == [
        "a\\_b",
        "",
        "**1. now**",
    ]
    assert written(Answer("cannot_tell", "Why?")) == ["> **Cannot tell.** Why?"]
    assert written(Bullets([("x_y", "1 < 2"), ("", "b")])) == ["- `x_y`: 1 \\< 2", "- b"]
    assert written(Table("T", ["a", "b"], [["1|2", "3"]])) == [
        "T:",
        "",
        "| a | b |",
        "|---|---|",
        "| 1\\|2 | 3 |",
    ]
    assert written(Source("f.py:2", 1, ["one", "``` two"], 2)) == [
        "`f.py:2`",
        "",
        "````",
        "      1 one",
        ">     2 ``` two",
        "````",
    ]
    assert written(Diff("f.py:2", ["-a", "+b"]))[2:] == ["```diff", "-a", "+b", "```"]
    assert written(Folded("More", []))[0] == "More: see report.html."


def test_a_chart_is_its_ends_and_a_heat_map_its_extremes() -> None:
    line = Series("loss", [0.0, 1.0, 2.0], [3.0, math.nan, 1.0])
    lines = written(
        Chart("Loss", "description", "nats", [line, Series("none", [], [])], [Level("u", 2.0)])
    )
    assert "| loss | 3 | 1 | 3 | 1 |" in lines
    assert "| none |  |  |  |  |" in lines
    assert "| u | 2 |  |  |  |" in lines
    rows = [f"w{i}" for i in range(9)]
    flow = HeatMap("Flow", "description", "RMS", rows, [0], [[float(i)] for i in range(9)])
    assert [line for line in written(flow) if line.startswith("| w")] == [
        f"| w{i} | {i} |" for i in (0, 1, 2, 6, 7, 8)
    ]


@given(st.text())
def test_no_text_becomes_a_heading_a_list_markup_or_a_second_line(text: str) -> None:
    line = escaped(text)
    assert "\n" not in line
    assert not line.startswith(("#", "- ", "+", "=", ">"))
    bare = line.replace("\\\\", "")
    for character in "<>`*_[]|":
        assert f"\\{character}" in bare or character not in bare
        assert character not in bare.replace(f"\\{character}", "")


def test_a_numbered_beginning_stays_text() -> None:
    assert escaped("12. fine") == "1&#50;. fine"
    assert escaped("12 fine") == "12 fine"


def test_a_whole_report_reads_from_answer_to_environment(tmp_path: Path) -> None:
    record(tmp_path, [3.0, 2.0], events=true_losses((1, 2.0)))
    text = rendered(document_of(facts_of(tmp_path, verdict())))
    assert text.index("The cause is label\\_offset") < text.index("## Proof")
    assert text.index("## Ruled out") < text.index("## Environment")
