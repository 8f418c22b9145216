"""`lossleuth mcp`: the server, on standard input and output."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from lossleuth import __version__
from lossleuth.agents.command import end_all
from lossleuth.agents.tools import Tools

INSTRUCTIONS = """\
lossleuth finds out why a PyTorch training script does not learn, and proves it. Start with `run`; \
its answer is the whole verdict. Read `status` first, then `causes`: the first is the answer, with \
file, line and remedy. Edit, `run` again, and check that the cause is now refuted. \
Only files under the directory in which the server was started are accessible."""

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# Rewrites the report next to the records, the same each time.
REWRITES = ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False)
# The user's scripts can do anything.
EXECUTES = ToolAnnotations(destructive_hint=False, idempotent_hint=False, open_world_hint=True)


def make_server(root: Path) -> MCPServer[None]:
    """An MCP server for the files of one directory."""
    server: MCPServer[None] = MCPServer(
        "lossleuth", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(root)
    server.add_tool(tools.run, annotations=EXECUTES)
    server.add_tool(tools.examine, annotations=REWRITES)
    server.add_tool(tools.explain, annotations=READS)
    server.add_tool(tools.causes, annotations=READS)
    server.add_tool(tools.compare, annotations=READS)
    server.add_tool(tools.check_gradient, annotations=EXECUTES)
    return server


def serve(root: Path) -> None:
    """Serve until the client disconnects, then end every running command."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    make_server(root).run("stdio")


def _leave(number: int, _frame: FrameType | None) -> None:
    """Exit at once: a thread blocked on standard input would keep the process alive."""
    end_all()
    os._exit(128 + number)
