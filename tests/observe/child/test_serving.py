"""A process that is forked for every request."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from typing import Any

import pytest

from lossleuth.observe.child.serving import Requests, answer

SERVER = """
import os, sys
from lossleuth.observe.child.serving import Requests, redirect_output, serve
request = serve(Requests(0), 1)
if request is None:
    os._exit(7)
redirect_output(request["output"])
print("here", request["code"], flush=True)
os._exit(request["code"])
"""


def test_requests_come_line_by_line_however_they_arrive() -> None:
    reading, writing = os.pipe()
    requests = Requests(reading)
    assert requests.next(0.0) is None
    os.write(writing, b'{"a": 1}\n{"b"')
    assert requests.next(1.0) == {"a": 1}
    assert requests.next(0.0) is None
    os.write(writing, b": 2}\n")
    assert requests.next(1.0) == {"b": 2}
    os.close(writing)
    assert requests.next(1.0) is None
    assert requests.ended
    os.close(reading)


def test_nobody_has_to_listen() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        os.write(writing, b"to nobody")
    answer(writing, {"state": "ready"})
    os.close(writing)


@pytest.mark.parametrize("codes", [[0], [3, 0, 5]])
def test_every_request_is_a_fork_with_its_own_end(codes: list[int], tmp_path: Any) -> None:
    # Without a buffer: one that holds a second line would leave nothing for `select` to wait for.
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for number, code in enumerate(codes):
            line = {"output": str(tmp_path / f"{number}.txt"), "code": code}
            process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        ended: dict[int, int] = {}
        started: list[int] = []
        while len(ended) < len(codes):
            assert select.select([process.stdout], [], [], 30)[0]
            said = json.loads(process.stdout.readline())
            if "started" in said:
                started.append(said["started"])
            else:
                ended[said["ended"]] = said["code"]
        assert [ended[pid] for pid in started] == codes
        process.stdin.close()
        assert process.wait(30) == 7
    said = [(tmp_path / f"{number}.txt").read_text() for number in range(len(codes))]
    assert said == [f"here {code}\n" for code in codes]
