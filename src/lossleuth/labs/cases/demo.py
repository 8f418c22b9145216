"""`lossleuth demo`: one founding case, examined live."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from lossleuth.labs.cases.stories import STORIES, Story
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Status

Print = Callable[[str], None]


def run_demo(name: str, out: Path | None, show: Print) -> int:
    """Show what the authors believed, examine the case, show the proof; the verdict's exit code."""
    story = _story(name)
    show(f"The case of {story.name}: {story.script}")
    show(f"Believed: {story.believed}")
    show("lossleuth now runs the program, unchanged:")
    sys.stdout.flush()
    # Load nothing heavy before the first lines are on the screen.
    from lossleuth.examiner.commands import examine_script
    from lossleuth.report.render.terminal import lines
    from lossleuth.report.writing import write_reports

    began = time.monotonic()
    verdict, directory = examine_script(story.script, [], out=out)
    written = write_reports(directory, verdict)
    show("")
    for line in lines(verdict):
        show(line)
    show("")
    for identifier in story.blamed:
        judgement = verdict.judgements.get(identifier)
        if judgement is not None and judgement.status is Status.REFUTED:
            show(f"The suspect at the time, {identifier}, is ruled out: {judgement.because}.")
    show("")
    for line in story.text.splitlines():
        show(line)
    show("")
    show(f"({time.monotonic() - began:.0f} s; report: {written[1]})")
    show("For your own script: lossleuth run YOUR_SCRIPT.py [ITS ARGUMENTS]")
    return verdict.exit_code


def _story(name: str) -> Story:
    for story in STORIES:
        if story.name == name:
            return story
    names = ", ".join(story.name for story in STORIES)
    raise BadInput("the name of a case", repr(name), f"give one of {names}")
