"""Judging a saved run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lossleuth.examiner.rejudge import rejudge
from lossleuth.record.write import RecordWriter
from lossleuth.types.change import Change
from lossleuth.types.judgement import Status


def saved(directory: Path, losses: list[float], header: dict[str, Any] | None = None) -> None:
    writer = RecordWriter.create(directory, {"script": "t.py"} | (header or {}), warn=print)
    writer.parameters(["w"], [4], ["grad_rms", "update_rms"])
    for step, loss in enumerate(losses):
        scalars = {"step": step, "loss": loss, "lr": 0.1, "updates": 1, "backwards": 1}
        writer.step(scalars | {"seconds": 0.01}, np.array([[0.1, 0.01]]))
    writer.end({"how": "stopped", "steps": len(losses)})


def trial(directory: Path, losses: list[float], seed: int, *changes: Change) -> None:
    listed = [[c.name, dict(c.options)] for c in changes]
    header = {"changes": listed, "seed_shift": 1000 * seed, "stop_steps": len(losses)}
    saved(directory, losses, header)


def test_saved_trials_count_as_they_did(tmp_path: Path) -> None:
    rising = [3.0 + 0.05 * i for i in range(40)]
    falling = [3.0 - 0.05 * i for i in range(40)]
    saved(tmp_path / "observed", rising)
    without = rejudge(tmp_path)
    lower = Change.of("scale_lr", factor=0.1)
    for seed in range(3):
        trial(tmp_path / "trials" / "0" / f"{seed}a", rising, seed)
        trial(tmp_path / "trials" / "0" / f"{seed}b", [x - seed for x in falling], seed, lower)
    again = rejudge(tmp_path)
    assert without.judgements["lr_too_high"].harm is None
    harm = again.judgements["lr_too_high"].harm
    assert harm is not None
    assert (harm.change, harm.seeds, harm.steps) == (lower, 3, 40)
    assert again.judgements["lr_too_high"].status.value == "proven"


def test_what_was_seen_with_a_cure_in_is_judged_too(tmp_path: Path) -> None:
    saved(tmp_path / "observed", [3.0, 2.9, 2.8])
    before = rejudge(tmp_path).judgements["lr_too_high"]
    cured = {"changes": [["hold_lr", {}]], "seed_shift": 0}
    saved(tmp_path / "cured1", [3.0 - 0.05 * i for i in range(40)], cured)
    # Another that cannot be read costs nothing.
    (tmp_path / "cured2").mkdir()
    (tmp_path / "cured2" / "record.log").write_bytes(b"no record")
    verdict = rejudge(tmp_path)
    after = verdict.judgements["lr_too_high"]
    assert verdict.steps == 3
    assert (before.status, after.status) == (Status.UNTESTED, Status.REFUTED)
    assert after.because.endswith("(seen with hold_lr() in)")
