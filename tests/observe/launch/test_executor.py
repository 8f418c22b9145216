"""Programs in the background, as processes of their own."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lossleuth.observe.launch.executor import (
    MAX_OUTPUT_BYTES,
    OUTPUT,
    Background,
    RunOutcome,
    RunSpec,
    last_words,
)
from lossleuth.observe.launch.program import Program
from lossleuth.observe.request import VARIABLE, WatchRequest
from lossleuth.record.read import Record
from lossleuth.types.change import Change

LOOP = """
import os, tempfile, torch
os.chdir(tempfile.mkdtemp())
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(10**9):
    {caught}:
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        optimizer.step()
    {handler}
"""


def in_background(
    folder: Path,
    script: str,
    *,
    plans: int = 1,
    jobs: int = 1,
    within: float = 60.0,
    changes: tuple[Change, ...] = (),
    on_finished: Callable[[RunOutcome], None] = lambda _: None,
) -> list[RunOutcome]:
    path = folder / "train.py"
    path.write_text(script)
    wanted = [RunSpec(folder / f"run{i}", 5, 30.0, changes=changes) for i in range(plans)]
    background = Background(Program(path, ("--own", "arguments")), jobs)
    return background.run(wanted, time.monotonic() + within, on_finished)


def is_alive(process: int) -> bool:
    """Whether a process still runs; one that only waits to be buried does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def is_soon_gone(process: int) -> bool:
    for _ in range(100):
        if not is_alive(process):
            return True
        time.sleep(0.02)
    return False


def test_a_script_that_leaves_and_swallows_everything_is_stopped_all_the_same(
    tmp_path: Path,
) -> None:
    script = LOOP.format(caught="try", handler="except BaseException: pass")
    (finished,) = in_background(tmp_path, script)
    assert (finished.code, finished.problem) == (0, None)
    with Record.open(tmp_path / "run0") as record:
        assert len(record.series("loss")) == 5
        assert record.ended is not None


def test_a_change_that_cannot_be_made_is_in_the_record(tmp_path: Path) -> None:
    script = LOOP.format(caught="if True", handler="")
    in_background(tmp_path, script, changes=(Change.of("skip_softmax"),))
    with Record.open(tmp_path / "run0") as record:
        assert record.ended is not None
        assert record.ended["how"] == "intervention failed"
        assert "no logits and targets" in record.ended["error"]


HANGING = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep({seconds})
"""


def test_a_script_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    (finished,) = in_background(tmp_path, HANGING.format(seconds=600), within=2.5)
    assert finished.code is None
    assert finished.problem is not None
    assert "it did not finish within" in finished.problem
    assert is_soon_gone(int(last_words(tmp_path / "run0")))


def test_a_child_with_a_session_of_its_own_is_ended_with_a_script_that_hangs(
    tmp_path: Path,
) -> None:
    script = HANGING.format(seconds=600).replace('"])', '"], start_new_session=True)')
    assert "start_new_session" in script
    in_background(tmp_path, script, within=2.5)
    assert is_soon_gone(int(last_words(tmp_path / "run0")))


def test_a_run_is_ended_when_its_patience_is_over(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HANGING.format(seconds=600))
    plan = RunSpec(tmp_path / "run0", 5, 30.0, patience=2.5)
    (finished,) = Background(Program(tmp_path / "train.py"), 1).run([plan])
    assert finished.problem is not None
    assert "it did not finish within" in finished.problem


def test_a_run_knows_when_it_has_to_be_over(tmp_path: Path) -> None:
    """A little before it would be killed, so that its record has an end."""
    plan = RunSpec(tmp_path, 5, 30.0)
    assert plan.request_for({}).ends_at == math.inf
    request = plan.request_for({}, until=time.monotonic() + 100)
    assert 90 < request.ends_at - time.time() < 100
    request = replace(plan, patience=50).request_for({}, until=time.monotonic() + 100)
    assert 40 < request.ends_at - time.time() < 50


def test_what_outlives_a_script_is_ended_with_it(tmp_path: Path) -> None:
    (finished,) = in_background(tmp_path, HANGING.format(seconds=0))
    assert finished.code == 0
    assert is_soon_gone(int(last_words(tmp_path / "run0")))


def test_an_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\n"
        "print(os.getpid(), flush=True)\n"
        f"time.sleep(600 if 'run1' in os.environ[{VARIABLE!r}] else 1)\n"
    )

    def interrupt(_finished: RunOutcome) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_background(tmp_path, script, plans=2, jobs=2, on_finished=interrupt)
    assert is_soon_gone(int(last_words(tmp_path / "run1")))


def test_megabytes_of_output_are_thrown_away(tmp_path: Path) -> None:
    script = "import time\nfor _ in range(40):\n    print('x' * (1 << 20)); time.sleep(0.02)\n"
    (finished,) = in_background(tmp_path, script + "print('the end')\n")
    assert finished.code == 0
    assert (tmp_path / "run0" / OUTPUT).stat().st_size < MAX_OUTPUT_BYTES + (8 << 20)
    assert last_words(tmp_path / "run0").endswith("the end")


def test_who_asks_for_input_is_told_that_there_is_none(tmp_path: Path) -> None:
    (finished,) = in_background(tmp_path, "input('continue? ')")
    assert finished.code == 1
    assert last_words(tmp_path / "run0").endswith("EOFError: EOF when reading a line")


def test_arguments_and_surroundings_reach_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A trial is sent nowhere, whatever the user's own runs do.
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("MY_OWN", "kept")
    script = "import os, sys\nprint(sys.argv[1:], *map(os.getenv, ('WANDB_MODE', 'MY_OWN')))\n"
    in_background(tmp_path, script)
    assert last_words(tmp_path / "run0") == "['--own', 'arguments'] disabled kept"


SLEEPER = "import time\nprint(time.time(), flush=True)\ntime.sleep(0.5)\nprint(time.time())\n"


@pytest.mark.parametrize("jobs", [1, 2])
def test_as_many_run_at_a_time_as_were_allowed(tmp_path: Path, jobs: int) -> None:
    done: list[RunOutcome] = []
    found = in_background(tmp_path, SLEEPER, plans=2, jobs=jobs, on_finished=done.append)
    assert sorted(map(id, done)) == sorted(map(id, found))
    words = [last_words(tmp_path / f"run{i}") for i in range(2)]
    (_, end), (begin, _) = ([float(t) for t in text.split()] for text in words)
    assert (begin < end) == (jobs == 2)


def test_what_there_is_no_time_for_is_said(tmp_path: Path) -> None:
    (finished,) = in_background(tmp_path, "x = 1", within=-1)
    assert (finished.code, finished.problem) == (None, "no time left")
    assert not (tmp_path / "run0").exists()


def test_an_order_survives_the_way_through_the_environment(tmp_path: Path) -> None:
    changes = (Change.of("scale_lr", factor=0.1),)
    plan = RunSpec(tmp_path, 7, 2.5, (0, 1), loss_steps=(3,), seed_shift=1000, changes=changes)
    (tmp_path / "train.py").write_text("x = 1")
    request = plan.request_for(Program(tmp_path / "train.py").header())
    assert WatchRequest(**json.loads(request.environment()[VARIABLE])) == request
    assert request.changes == (("scale_lr", {"factor": 0.1}),)
    assert (request.stop_steps, request.stop_seconds, request.seed_shift) == (7, 2.5, 1000)


def test_last_words_of_a_run_that_said_nothing_are_none(tmp_path: Path) -> None:
    assert last_words(tmp_path) == ""
    assert VARIABLE not in os.environ
