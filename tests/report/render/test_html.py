"""Reports as pages."""

from __future__ import annotations

import json
import math
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_runs import record, true_losses, verdict

from lossleuth.record.strict_json import dumps
from lossleuth.report.document.blocks import Bullets, Chart, Document, Section, Series
from lossleuth.report.document.document import document_of
from lossleuth.report.document.load_facts import facts_of
from lossleuth.report.render.html import rendered

VOID = {"meta"}
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "{{7*7}}",
    "\x1b[2J\u202e",
    "=cmd()",
    "</svg></details>",
    "]]>",
    "a`b",
]


class Balanced(HTMLParser):
    """Every element is closed where it should be; scripts and handlers are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.scripts = 0
        self.handlers: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.scripts += name == "script"
        self.handlers += [k for k, _ in attributes if k.startswith("on") or k in ("style", "src")]
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        if not self.open or self.open.pop() != name:
            self.wrong.append(name)


def check_page(text: str) -> None:
    """Well formed, with our script and no other, and no way for a name to act."""
    reader = Balanced()
    reader.feed(text)
    reader.close()
    assert (reader.open, reader.wrong) == ([], [])
    assert reader.scripts == 1
    assert reader.handlers == []


def page(directory: Path, script: str = "train.py") -> str:
    return rendered(document_of(facts_of(directory, verdict(script=script))))


def test_the_page_is_whole_and_allows_nothing_from_anywhere(tmp_path: Path) -> None:
    record(tmp_path, [3.0, 2.0], events=true_losses((1, 2.0)))
    text = page(tmp_path)
    check_page(text)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "unsafe" not in policy[1]
    assert "http://" not in text.replace("http-equiv", "")
    assert "https://" not in text


def test_every_picture_has_a_title_a_text_and_a_table(tmp_path: Path) -> None:
    record(tmp_path, [3.0, 2.0], events=true_losses((1, 2.0)))
    text = page(tmp_path)
    figures = text.split("<figure")[1:]
    assert len(figures) == 4
    for figure in figures:
        label = re.search(r'aria-labelledby="(\S+) (\S+)"', figure)
        assert label is not None
        assert f'id="{label[1]}"' in figure
        assert f'id="{label[2]}"' in figure
        assert "<table>" in figure


def test_a_run_of_200_steps_is_a_small_file(tmp_path: Path) -> None:
    names = [f"blocks.{i}.weight" for i in range(60)]
    losses = [3.0 + math.sin(i) for i in range(200)]
    record(tmp_path, losses, parameters=names, scalars={"grad_norm": 1.0, "supervised": 64})
    assert len(page(tmp_path).encode()) <= 700_000


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    losses=st.lists(st.floats(), max_size=30),
    names=st.lists(st.sampled_from(HOSTILE) | st.text(), max_size=6, unique=True),
    script=st.sampled_from(HOSTILE),
)
def test_whatever_was_recorded_the_page_is_sound(
    losses: list[float], names: list[str], script: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        header = {"script": script, "arguments": [script]}
        reads = {"reads": [[1.0, script]]}
        record(directory, losses, parameters=names, header=header, scalars=reads)
        found = verdict(script=script)
        check_page(page(directory, script))
        assert json.loads(dumps(found.as_json()))["status"] == "proven"


def test_many_layers_and_many_steps_stay_small(tmp_path: Path) -> None:
    names = [f"layer {i}" for i in range(500)]
    record(tmp_path / "deep", [1.0] * 120, parameters=names)
    deep = page(tmp_path / "deep")
    check_page(deep)
    assert len(deep.encode()) <= 700_000
    record(tmp_path / "long", [1.0 + (i == 77_777) for i in range(100_000)], every=1000)
    long = page(tmp_path / "long")
    check_page(long)
    assert len(long.encode()) <= 700_000
    # The one step that stands out is not lost.
    assert "<td>77777</td><td>2</td>" in long


def test_a_single_curve_needs_no_legend_and_two_do() -> None:
    curves = [Series(name, [0.0, 1.0], [1.0, 2.0]) for name in ("first", "second")]
    for count, legends in ((1, 0), (2, 1)):
        chart = Chart("Loss", "description", "nats", curves[:count])
        text = rendered(Document("t", "s", [Section("", [chart])]))
        assert text.count('<ul class="legend">') == legends
        assert 'id="figure-1-title">Loss (nats)</span>' in text


def test_a_long_list_of_names_has_a_line_of_its_own() -> None:
    names = Bullets([("a", "short"), (", ".join("abcdefghijkl"), "long")])
    text = rendered(Document("t", "s", [Section("", [names])]))
    assert "<dt><code>a</code></dt>" in text
    assert text.count('<dt class="long">') == 1
