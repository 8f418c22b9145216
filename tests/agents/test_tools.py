"""The tools by themselves; `test_server.py` has them behind the protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.types import CallToolResult

from lossleuth.agents import tools
from lossleuth.agents.command import CommandResult, ReportProgress
from lossleuth.agents.tools import OVERTIME_SECONDS, Tools, with_plain_errors
from lossleuth.types.errors import BadInput


class Listening:
    """Stands for the request: keeps its progress messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.seconds: list[float] = []

    async def report_progress(self, done: float, total: float | None, message: str) -> None:
        self.messages.append(message)
        self.seconds.append(done)


def words(result: CallToolResult) -> str:
    return "".join(getattr(part, "text", "") for part in result.content)


def test_a_refusal_is_an_answer_of_one_sentence() -> None:
    @with_plain_errors
    async def refusing() -> CallToolResult:
        raise BadInput("a", "b", "do c")

    result = anyio.run(refusing)
    assert result.is_error
    assert words(result) == "expected a, found b: do c"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What would be run, and nothing is."""
    asked: list[dict[str, Any]] = []

    async def run_command(
        module: str,
        arguments: list[str],
        *,
        root: Path,
        limit: float,
        report_progress: ReportProgress,
        remedy: str = "",
    ) -> CommandResult:
        asked.append({"module": module, "arguments": arguments, "limit": limit, "remedy": remedy})
        await report_progress("running it")
        await anyio.sleep(0.5)
        return CommandResult(0, json.dumps({"status": "healthy"}).encode(), "")

    monkeypatch.setattr(tools, "run_command", run_command)
    return asked


def test_a_run_is_the_command_with_a_directory_and_a_limit(
    tmp_path: Path, commands: list[dict[str, Any]]
) -> None:
    (tmp_path / "train.py").write_text("")
    listening = Listening()

    async def ask() -> CallToolResult:
        return await Tools(tmp_path).run("train.py", listening, arguments=["--lr", "1"], budget=40)

    result = anyio.run(ask)
    assert result.structured_content is not None
    directory = result.structured_content["directory"]
    assert directory.startswith("runs/")
    (asked,) = commands
    assert asked["arguments"][-3:] == [str(tmp_path / "train.py"), "--lr", "1"]
    assert str(tmp_path / directory) in asked["arguments"]
    assert asked["limit"] == OVERTIME_SECONDS + 60
    assert directory in asked["remedy"]
    assert listening.messages == ["running it"]


def test_one_run_at_a_time(
    tmp_path: Path, commands: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "HEARTBEAT_SECONDS", 0.2)
    (tmp_path / "train.py").write_text("")
    heard = [Listening(), Listening()]

    async def ask() -> None:
        made = Tools(tmp_path)
        async with anyio.create_task_group() as group:
            for listening in heard:
                group.start_soon(made.run, "train.py", listening)

    anyio.run(ask)
    assert len(commands) == 2
    first, second = sorted(heard, key=lambda listening: len(listening.messages))
    assert first.messages == ["running it"]
    *waiting, last = second.messages
    # The message is repeated, and the numbers grow all the way.
    assert set(waiting) == {"waiting for another run to finish"}
    assert (len(waiting) >= 2, last) == (True, "running it")
    assert second.seconds == sorted(set(second.seconds))


def test_a_comparison_that_fails_is_refused_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_command(*args: Any, **options: Any) -> CommandResult:
        return CommandResult(2, b"", "lossleuth: expected a record, found none: give another\n")

    monkeypatch.setattr(tools, "run_command", run_command)
    (tmp_path / "a").mkdir()

    async def ask() -> CallToolResult:
        return await Tools(tmp_path).compare("a", "a", Listening())

    result = anyio.run(ask)
    assert result.is_error
    assert words(result) == "expected a record, found none: give another"
