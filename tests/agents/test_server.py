"""The server as a client sees it: real processes, the protocol's own client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from asking import Assistant, said_by, with_assistant, within

from lossleuth.agents import tools
from lossleuth.catalogue import cause, causes

SCRIPT = """
import sys
import torch
from torch.nn import functional as F

print("noise on standard output", flush=True)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(8, 16), torch.nn.Linear(16, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=float(sys.argv[1]))
for step in range(40):
    tokens = (torch.arange(9) + torch.randint(0, 8, (8, 1))) % 8
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
GRADIENT = """
import numpy as np
print("noise")
loss = lambda w: float((w**2).sum())
gradient = lambda w: [2.02 * w]
parameters = [np.array([1.0, -3.0])]
def forever(w):
    while True: print("noise")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "mine.py").write_text(GRADIENT)
    (tmp_path / "secret.py").write_text("raise SystemExit('run, though it is outside')\n")
    (folder / "link.py").symlink_to(tmp_path / "secret.py")
    return folder


def test_six_tools_are_offered_with_schemas(root: Path) -> None:
    async def talk(assistant: Assistant) -> None:
        tools = {t.name: t for t in (await assistant.client.list_tools()).tools}
        names = {"run", "examine", "explain", "causes", "compare", "check_gradient"}
        assert set(tools) == names
        for tool in tools.values():
            assert tool.description
            assert "context" not in tool.input_schema["properties"]
            assert all("description" in p for p in tool.input_schema["properties"].values())
            assert tool.output_schema is not None and tool.output_schema["type"] == "object"
        properties = tools["run"].input_schema["properties"]
        assert tools["run"].input_schema["required"] == ["script"]
        assert properties["steps"]["anyOf"] == [{"minimum": 1, "type": "integer"}, {"type": "null"}]
        assert properties["arguments"]["items"] == {"type": "string"}

    within(root, talk)


def test_a_script_is_run_judged_repaired_and_compared(root: Path) -> None:
    """The loop of an assistant: run, read, edit, run again; then look back."""

    async def talk(assistant: Assistant) -> None:
        sick = await assistant.ask(
            "run", script="train.py", arguments=["0.0"], steps=8, seeds=1, budget=60
        )
        assert not sick.is_error, sick.text
        verdict = sick.data["verdict"]
        first = verdict["causes"][0]
        assert (verdict["status"], first["id"]) == ("proven", "lr_zero")
        assert first["where"]["file"] == str(root / "train.py")
        directory = root / sick.data["directory"]
        # Nothing is lost or added on the way, and it is also there as text.
        assert verdict == json.loads((directory / "verdict.json").read_text())
        assert json.loads(sick.text) == sick.data
        assert (root / sick.data["report"]).is_file()
        seconds = [s for s, _ in sick.progress]
        assert len(seconds) >= 2
        assert seconds == sorted(set(seconds))
        assert all(sentence for _, sentence in sick.progress)

        again = await assistant.ask("examine", directory=sick.data["directory"])
        assert again.data["verdict"]["causes"] == verdict["causes"]
        assert again.data["directory"] == sick.data["directory"]

        repaired = await assistant.ask(
            "run", script="train.py", arguments=["0.1"], steps=40, seeds=1, budget=60
        )
        assert repaired.data["verdict"]["status"] == "healthy"
        assert "lr_zero" in repaired.data["verdict"]["refuted"]

        compared = await assistant.ask(
            "compare", first=sick.data["directory"], second=repaired.data["directory"]
        )
        assert "The runs first differ at step" in compared.data["markdown"]
        # What the script prints stays with the run.
        assert "noise on standard output" in (directory / "observed" / "output.txt").read_text()

    with_assistant(root, talk)
    assert said_by(root).read_text() == ""


def test_causes_are_listed_and_explained(root: Path) -> None:
    async def talk(assistant: Assistant) -> None:
        listed = await assistant.ask("causes")
        assert [c["id"] for c in listed.data["causes"]] == [c.id for c in causes()]
        needs = {c["id"]: c["needs"] for c in listed.data["causes"]}
        assert needs["future_leak"] == [*cause("future_leak").needs_by_name] != []
        page = await assistant.ask("explain", id="label_offset")
        assert page.data["stage"] == "data"
        assert "When this verdict is wrong" in page.data["page"]
        unknown = await assistant.ask("explain", id="bad_luck")
        assert unknown.is_error
        assert unknown.text.startswith("expected the id of a cause, found 'bad_luck'")

    within(root, talk)


def test_what_is_outside_is_refused_in_a_sentence_and_not_run(root: Path) -> None:
    async def talk(assistant: Assistant) -> None:
        for given in ("../secret.py", str(root.parent / "secret.py"), "link.py"):
            for tool, name in (("run", "script"), ("check_gradient", "module")):
                answer = await assistant.ask(tool, **{name: given})
                assert answer.is_error
                assert answer.text.startswith("expected a Python file under ")
                assert answer.text.count("\n") == 0
                assert "run, though" not in answer.text
        for given in ("..", "/", str(root.parent)):
            answer = await assistant.ask("examine", directory=given)
            assert answer.is_error and "outside of it" in answer.text
            answer = await assistant.ask("compare", first=given, second=given)
            assert answer.is_error and "outside of it" in answer.text
        # Nothing was made for what was not done.
        assert not (root / "runs").exists()

    within(root, talk)


def test_a_gradient_is_checked_and_given_up_at_its_budget(root: Path) -> None:
    async def talk(assistant: Assistant) -> None:
        wrong = await assistant.ask("check_gradient", module="mine.py")
        assert (wrong.data["outcome"], len(wrong.data["wrong"])) == ("fail", 1)
        absent = await assistant.ask("check_gradient", module="mine.py", loss="lost")
        assert absent.is_error and absent.text.startswith("expected lost in mine.py")
        began = time.monotonic()
        late = await assistant.ask("check_gradient", module="mine.py", loss="forever", budget=1)
        assert late.is_error and "found none, so it was ended" in late.text
        assert time.monotonic() - began < 20

    with_assistant(root, talk)


def test_what_cannot_be_run_is_reported_and_leaves_the_server_well(root: Path) -> None:
    (root / "bad.py").write_text("def f(:\n")
    (root / "other.py").write_text("print('no torch here')\n")

    async def talk(assistant: Assistant) -> None:
        bad = await assistant.ask("run", script="bad.py")
        assert bad.is_error and "which Python cannot parse at line 1" in bad.text
        # Nothing was run: nothing is left behind.
        assert list((root / "runs").iterdir()) == []
        other = await assistant.ask("run", script="other.py", budget=10)
        assert other.is_error and "did not import torch" in other.text
        few = await assistant.ask("run", script="train.py", steps=0)
        assert few.is_error and "greater than or equal to 1" in few.text
        assert not (await assistant.ask("causes")).is_error

    with_assistant(root, talk)


SLEEPER = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    """Whether a process ends within 10 s."""
    for _ in range(200):
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


def pid_in(root: Path) -> int:
    """The number that a script prints when it begins."""
    for _ in range(400):
        for output in root.glob("runs/*/observed/output.txt"):
            if output.read_text().endswith("\n"):
                return int(output.read_text().split()[-1])
        time.sleep(0.05)
    raise AssertionError("the script has not begun")


def test_a_run_that_takes_too_long_is_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "sleep.py").write_text(SLEEPER)
    # 5 s, where lossleuth itself would wait for a minute.
    monkeypatch.setattr(tools, "OVERTIME_SECONDS", -85.0)

    async def talk(assistant: Assistant) -> None:
        late = await assistant.ask("run", script="sleep.py", budget=60)
        assert late.is_error
        (directory,) = (root / "runs").iterdir()
        assert late.text == (
            "expected an answer within 5 s, found none, so it was ended: give a larger budget or "
            f"fewer steps; what was recorded is in runs/{directory.name}"
        )

    within(root, talk)
    assert gone(pid_in(root))


def test_a_cancelled_run_is_ended_with_its_script(root: Path) -> None:
    (root / "sleep.py").write_text(SLEEPER)

    async def talk(assistant: Assistant) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: assistant.ask("run", script="sleep.py"))
            pid = await anyio.to_thread.run_sync(pid_in, root)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(gone, pid)

    with_assistant(root, talk)


def test_a_client_that_goes_leaves_nothing_running(root: Path) -> None:
    (root / "sleep.py").write_text(SLEEPER)

    async def talk(assistant: Assistant) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: assistant.ask("run", script="sleep.py"))
            await anyio.to_thread.run_sync(pid_in, root)
            raise RuntimeError("the client crashes")

    with pytest.raises(ExceptionGroup):
        with_assistant(root, talk)
    assert gone(pid_in(root))


def test_the_server_exits_on_sigterm(root: Path) -> None:
    command = [sys.executable, "-m", "lossleuth", "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        time.sleep(1.5)
        os.kill(process.pid, signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=10)
    assert process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert (stdout, stderr) == (b"", b"")
