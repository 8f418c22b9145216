"""Reports as files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import record, true_losses, verdict

from lossleuth.report.document.compare import comparison
from lossleuth.report.writing import write_comparison, write_report, write_reports
from lossleuth.types.errors import BadInput

WITHOUT_TORCH = """
import sys
from pathlib import Path
class Refuse:
    def find_spec(self, name, *rest):
        if name.split(".")[0] == "torch":
            raise ImportError("torch is not here")
sys.meta_path.insert(0, Refuse())
from lossleuth.cli import main
sys.argv[1:] = {arguments!r}
main()
"""


def without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT_TORCH.format(arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_three_files_say_the_same(tmp_path: Path) -> None:
    record(tmp_path, [3.0, 2.0])
    names = [path.name for path in write_reports(tmp_path, verdict())]
    assert names == ["verdict.json", "report.html", "report.md"]
    for name in names:
        assert "label" in (tmp_path / name).read_text()


def test_report_and_examine_work_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    record(tmp_path / "observed", [3.0, 2.0], events=true_losses((1, 2.0)))
    examined = without_torch("rejudge", "--json", str(tmp_path))
    assert examined.stderr == ""
    assert json.loads(examined.stdout)["status"] in ("healthy", "cannot_tell")
    for form in ("html", "md", "json", "csv"):
        done = without_torch("report", str(tmp_path), "--format", form)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / f"report.{form}").stat().st_size > 20
    compared = without_torch("compare", str(tmp_path), str(tmp_path))
    assert "bit-identical" in compared.stdout


def test_a_report_is_made_of_the_verdict_that_was_given(tmp_path: Path) -> None:
    record(tmp_path, [3.0, 2.0])
    before = write_report(tmp_path, "md", tmp_path / "before.md")
    assert "label\\_offset" not in before.read_text().split("## Not tested")[0]
    verdict().write(tmp_path)
    out = write_report(tmp_path, "md", tmp_path / "mine.md")
    assert "The cause is label\\_offset" in out.read_text()


def test_what_cannot_be_reported_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="give html, md, json or csv"):
        write_report(tmp_path, "pdf")
    with pytest.raises(BadInput, match="nothing at"):
        write_report(tmp_path / "gone", "html")
    with pytest.raises(BadInput):
        write_report(tmp_path, "html")
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_is_a_text_and_on_demand_a_page(tmp_path: Path) -> None:
    record(tmp_path / "a", [3.0, 2.0])
    record(tmp_path / "b", [3.0, 1.0])
    document = comparison(tmp_path / "a", tmp_path / "b")
    assert "The runs first differ at step 1" in write_comparison(document)
    write_comparison(document, tmp_path / "c.html")
    assert "The runs first differ at step 1" in (tmp_path / "c.html").read_text()
