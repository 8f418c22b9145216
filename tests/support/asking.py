"""A client of the server, as an assistant has one: the protocol package's own, over stdio."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
from mcp import Client, StdioServerParameters, stdio_client

from lossleuth.agents.server import make_server

T = TypeVar("T")


class Answer(NamedTuple):
    """What came back: data, or the sentence of a refusal."""

    data: Any
    text: str
    is_error: bool
    progress: list[tuple[float, str]]


class Assistant:
    """Asks one tool after the other."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool and collect what is told meanwhile."""
        progress: list[tuple[float, str]] = []

        async def told(done: float, total: float | None, message: str | None) -> None:
            progress.append((done, message or ""))

        result = await self.client.call_tool(tool, arguments, progress_callback=told)
        text = "".join(getattr(part, "text", "") for part in result.content)
        return Answer(result.structured_content, text, bool(result.is_error), progress)


def with_assistant(root: Path, talk: Callable[[Assistant], Awaitable[T]]) -> T:
    """Start the server in a directory, talk to it over stdio, and let it go.

    What it says on standard error is left beside the directory.
    """
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "lossleuth", "mcp"],
        cwd=root,
        env=dict(os.environ),
    )

    async def whole() -> T:
        with said_by(root).open("w") as beside, anyio.fail_after(100):
            async with Client(stdio_client(command, errlog=beside)) as client:
                return await talk(Assistant(client))

    return anyio.run(whole)


def said_by(root: Path) -> Path:
    """Where the standard error of the server in that directory is kept."""
    return root.parent / f"{root.name}.stderr"


def within(root: Path, talk: Callable[[Assistant], Awaitable[T]]) -> T:
    """Talk to a server in this process, where only the answers matter."""

    async def whole() -> T:
        async with Client(make_server(root)) as client:
            return await talk(Assistant(client))

    return anyio.run(whole)
