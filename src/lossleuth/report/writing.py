"""Write reports from a run's directory, without torch; each file is whole or absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lossleuth.examiner.rejudge import rejudge, saved_verdict
from lossleuth.files import replace_file
from lossleuth.judge.verdict import Verdict
from lossleuth.record import strict_json
from lossleuth.record.export import export
from lossleuth.record.read import Record
from lossleuth.report.document.blocks import Document
from lossleuth.report.document.document import document_of
from lossleuth.report.document.load_facts import facts_of
from lossleuth.report.render import html, markdown
from lossleuth.run_directory import RunDirectory
from lossleuth.types.errors import BadInput

FORMS: dict[str, Callable[[Path, Verdict], bytes]] = {
    "html": lambda d, v: html.rendered(document_of(facts_of(d, v))).encode(),
    "md": lambda d, v: markdown.rendered(document_of(facts_of(d, v))).encode(),
    "json": lambda _, v: (strict_json.dumps(v.as_json(), indent=2) + "\n").encode(),
}


def write_reports(directory: Path, verdict: Verdict) -> list[Path]:
    """Write `verdict.json`, `report.html` and `report.md`; where they are."""
    run = RunDirectory(directory)
    document = document_of(facts_of(directory, verdict))
    texts = {"html": html.rendered(document), "md": markdown.rendered(document)}
    verdict.write(directory)
    for form, text in texts.items():
        with replace_file(run.report(form)) as stream:
            stream.write(text.encode())
    return [run.verdict, *map(run.report, texts)]


def judge_and_report(directory: Path) -> list[Path]:
    """Judge a saved run and write its verdict and its reports; where they are."""
    return write_reports(directory, rejudge(directory))


def write_report(directory: Path, form: str, to: Path | None = None) -> Path:
    """Write one format of the report from a finished run."""
    if form not in (*FORMS, "csv"):
        raise BadInput("a report format", repr(form), "give html, md, json or csv")
    if not directory.is_dir():
        raise BadInput("a run directory", f"nothing at {directory}", "give one under runs/")
    run = RunDirectory(directory)
    path = to or run.report(form)
    if form == "csv":
        with Record.open(run.look) as record:
            export(record, "csv", path)
        return path
    # Without a verdict that was written, one is made now from the record.
    verdict = saved_verdict(directory) if run.verdict.exists() else rejudge(directory)
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
