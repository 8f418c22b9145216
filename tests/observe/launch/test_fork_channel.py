"""Asking a process for forks: what is answered, and what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lossleuth.observe.launch.fork_channel import ForkChannel


class Piped(ForkChannel):
    """The other end is this test."""

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.writing = os.pipe()
        self.sent: list[bytes] = []
        self.alive = True

    @property
    def is_alive(self) -> bool:
        return self.alive

    @property
    def _incoming(self) -> int | None:
        return self.reading

    def _send(self, line: bytes) -> None:
        self.sent.append(line)
        if not self.alive:
            raise BrokenPipeError
        os.write(self.writing, b'{"started": 17}\n')


def test_a_fork_is_known_by_its_number_and_ends_with_its_code(tmp_path: Path) -> None:
    channel = Piped()
    assert not channel.is_ready()
    os.write(channel.writing, b'{"state": "ready"}\n')
    assert channel.is_ready(1.0)
    forked = channel.fork(["train.py"], {}, tmp_path / "output.txt")
    assert forked is not None and forked.pid == 17
    assert forked.poll() is None
    os.write(channel.writing, b'{"ended": 17, "co')
    assert forked.poll() is None
    os.write(channel.writing, b'de": 3}\n')
    assert forked.poll() == 3
    assert forked.wait(1.0) == 3


@pytest.mark.parametrize("state", ["it has threads", "torch is missing"])
def test_a_refusal_is_no_readiness(state: str) -> None:
    channel = Piped()
    os.write(channel.writing, f'{{"state": "{state}"}}\n'.encode())
    assert not channel.is_ready(1.0)


def test_of_a_process_that_has_died_nothing_is_forked_and_its_runs_count_as_killed(
    tmp_path: Path,
) -> None:
    channel = Piped()
    forked = channel.fork([], {}, tmp_path / "output.txt")
    assert forked is not None
    channel.alive = False
    assert forked.poll() == -9
    assert channel.fork([], {}, tmp_path / "output.txt") is None
