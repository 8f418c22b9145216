"""One JSON line per step."""

from __future__ import annotations

import json
import math
import resource
import signal
from pathlib import Path

import pytest

from lossleuth.record import strict_json
from lossleuth.reference.train.loop import Step
from lossleuth.reference.train.step_log import StepLog, forget_after, lines_up_to
from lossleuth.types.errors import BadInput


def step(number: int, loss: float = 1.5) -> Step:
    return Step(number, loss, 1e-3, 2.0, 1.0, math.isfinite(loss), 64, 0.1, [1, 2])


def refuse(token: str) -> None:
    raise AssertionError(f"{token} is not JSON")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def test_every_step_is_one_line_of_valid_json_also_with_nan(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "r", print)
    log.step(step(0))
    log.step(step(1, math.nan))
    log.step(step(2, -math.inf))
    log.close()
    read = lines(tmp_path / "r")
    assert [line["step"] for line in read] == [1, 2, 3]
    assert [line["loss"] for line in read] == [1.5, "NaN", "-Infinity"]
    assert math.isnan(strict_json.number(read[1]["loss"]))
    assert read[0]["clipped"] is True


def test_a_line_is_on_disk_before_the_next_step(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "r", print)
    log.step(step(0))
    assert len(lines(tmp_path / "r")) == 1
    log.close()


def test_a_full_disk_costs_lines_but_tears_none_and_warns_once(tmp_path: Path) -> None:
    warnings: list[str] = []
    log = StepLog(tmp_path / "r", warnings.append)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        log.step(step(0))
        size = (tmp_path / "r").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
        log.step(step(1))
        log.step(step(2))
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        log.step(step(3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
        log.close()
    assert [line["step"] for line in lines(tmp_path / "r")] == [1, 4]
    assert len(warnings) == 1
    assert "training goes on" in warnings[0]


def test_a_resumed_run_drops_the_steps_it_will_make_again(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "r", print)
    for number in range(5):
        log.step(step(number))
    log.close()
    with (tmp_path / "r").open("ab") as stream:
        stream.write(b'{"kind": "step", "st')
    forget_after(tmp_path / "r", 3)
    assert [line["step"] for line in lines(tmp_path / "r")] == [1, 2, 3]
    forget_after(tmp_path / "missing", 3)
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(
    "foreign",
    [b"time,loss\n", b"[1]\n", b"{}\n", b'{"step": "x"}\n', b'{"step": true}\n', b"\xff\n", b"\n"],
)
def test_a_foreign_or_damaged_record_is_refused_and_left_alone(
    tmp_path: Path, foreign: bytes
) -> None:
    path = tmp_path / "r"
    content = b'{"step": 1}\n' + foreign
    path.write_bytes(content)
    for read in (lines_up_to, forget_after):
        with pytest.raises(BadInput, match=r"found line 2 of .*, which is no step: move the file"):
            read(path, 3)
    assert path.read_bytes() == content


def test_an_empty_record_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "r").touch()
    assert lines_up_to(tmp_path / "r", 3) == []
