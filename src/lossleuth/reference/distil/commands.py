"""What the verb distil does once torch may be imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lossleuth.reference.distil.control import run_control
from lossleuth.reference.distil.session import Session
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.state import FILE_NAME, load_state
from lossleuth.reference.train.allocator import keep_freed_memory
from lossleuth.reference.train.commands import check_name, with_absolute_data
from lossleuth.reference.train.memory import memory_told_plainly
from lossleuth.reference.train.output import patient_console
from lossleuth.reference.train.run_directory import check_free
from lossleuth.run_directory import dated_directory
from lossleuth.settings import Resolved, resolve
from lossleuth.types.errors import BadInput


def run_distillation(
    options: Mapping[str, Any],
    out: Path | None,
    config: Path | None,
    resume: Path | None,
    *,
    overwrite: bool,
    record: bool,
    control: bool,
) -> None:
    """Carry out `lossleuth distil`."""
    keep_freed_memory()
    resumed = load_state(resume) if resume else None
    saved = resumed.settings if resumed else None
    resolved = resolve(DistilSettings, options=options, file=config, saved=saved)
    resolved = with_absolute_models(with_absolute_data(resolved))
    if resumed:
        if out is not None or overwrite:
            raise BadInput(
                "neither --out nor --overwrite with --resume",
                f"--out {out}" if out else "--overwrite",
                "leave it out: a resumed run goes on in its own directory",
            )
        directory = resumed.path.parent
    else:
        directory = out or dated_directory()
        check_name("run directory", str(directory))
        if not overwrite:
            _check_free(directory)
    output = patient_console()
    with memory_told_plainly():
        session = Session(resolved, directory, output, resumed=resumed, record=record)
        session.run()
        lines = [f"the student and its state are in {directory}"]
        if control:
            sums, steps = session.final_sums(), session.progress.step
            lines.insert(0, run_control(session.settings, steps, sums).sentence())
    for line in lines:
        output.print(line, markup=False, highlight=False, soft_wrap=True)


def with_absolute_models(resolved: Resolved[DistilSettings]) -> Resolved[DistilSettings]:
    """Models that are files by their absolute names: a run may be resumed from elsewhere."""
    values = resolved.values
    teacher, student = _absolute(values.teacher), _absolute(values.student)
    return replace(resolved, values=replace(values, teacher=teacher, student=student))


def _absolute(name: str) -> str:
    return str(Path(name).absolute()) if name and Path(name).exists() else name


def _check_free(directory: Path) -> None:
    check_free(directory)
    if (directory / FILE_NAME).exists():
        raise BadInput(
            "a directory without a run",
            f"{FILE_NAME} in {directory}",
            "use --resume to continue it, --overwrite to replace it, or another --out",
        )
