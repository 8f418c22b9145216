"""Write reports from a run's directory, without torch; each file is whole or absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lossleuth.examiner.rejudge import examine_record, look_of, saved_verdict
from lossleuth.files import replace_file
from lossleuth.judge.verdict import FILE, Verdict
from lossleuth.record import strict_json
from lossleuth.record.export import export
from lossleuth.record.read import Record
from lossleuth.report.document.blocks import Document
from lossleuth.report.document.document import document_of
from lossleuth.report.document.load_facts import facts_of
from lossleuth.report.render import html, markdown
from lossleuth.types.errors import BadInput

FORMS: dict[str, Callable[[Path, Verdict], bytes]] = {
    "html": lambda d, v: html.rendered(document_of(facts_of(d, v))).encode(),
    "md": lambda d, v: markdown.rendered(document_of(facts_of(d, v))).encode(),
    "json": lambda _, v: (strict_json.dumps(v.as_json(), indent=2) + "\n").encode(),
}


def write_reports(directory: Path, verdict: Verdict) -> list[Path]:
    """Write `verdict.json`, `report.html` and `report.md`; return their paths."""
    document = document_of(facts_of(directory, verdict))
    texts = {"report.html": html.rendered(document), "report.md": markdown.rendered(document)}
    verdict.write(directory)
    for name, text in texts.items():
        with replace_file(directory / name) as stream:
            stream.write(text.encode())
    return [directory / FILE, *(directory / name for name in texts)]


def write_report(directory: Path, form: str, to: Path | None = None) -> Path:
    """Write one format of the report from a finished run."""
    if form not in (*FORMS, "csv"):
        raise BadInput("a report format", repr(form), "give html, md, json or csv")
    if not directory.is_dir():
        raise BadInput("a run directory", f"nothing at {directory}", "give one under runs/")
    path = to or directory / f"report.{form}"
    if form == "csv":
        with Record.open(look_of(directory)) as record:
            export(record, "csv", path)
        return path
    # A run that was only watched has no verdict yet.
    known = (directory / FILE).exists()
    verdict = saved_verdict(directory) if known else examine_record(directory)
    data = FORMS[form](directory, verdict)
    with replace_file(path) as stream:
        stream.write(data)
    return path


def write_comparison(document: Document, to: Path | None = None) -> str:
    """The comparison as Markdown; also as a page if a file is given."""
    if to is not None:
        with replace_file(to) as stream:
            stream.write(html.rendered(document).encode())
    return markdown.rendered(document)
