"""`lossleuth mcp`: the server, on standard input and output."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from lossleuth import __version__
from lossleuth.agents.errand import end_all
from lossleuth.agents.tools import Tools

INSTRUCTIONS = """\
lossleuth finds out why a PyTorch training script does not learn, and proves it. Start with `run`; \
its answer is the whole verdict. Read `status` first, then `causes`: the first is the answer, with \
file, line and remedy. Edit, `run` again, and see that the cause is now among the refuted. \
Only files under the directory that the server was started in can be given."""

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# It writes reports beside the records, the same each time.
REWRITES = ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False)
# Scripts are the user's programs: what they do is not ours to promise.
EXECUTES = ToolAnnotations(destructive_hint=False, idempotent_hint=False, open_world_hint=True)


def server(root: Path) -> MCPServer[None]:
    """The server of one directory."""
    made: MCPServer[None] = MCPServer(
        "lossleuth", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(root)
    made.add_tool(tools.run, annotations=EXECUTES)
    made.add_tool(tools.examine, annotations=REWRITES)
    made.add_tool(tools.explain, annotations=READS)
    made.add_tool(tools.causes, annotations=READS)
    made.add_tool(tools.compare, annotations=READS)
    made.add_tool(tools.check_gradient, annotations=EXECUTES)
    return made


def serve(root: Path) -> None:
    """Serve until the client goes; what is under way then is ended."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    server(root).run("stdio")


def _leave(number: int, _frame: FrameType | None) -> None:
    """Leave at once: a thread waits for standard input, and would not let go of it."""
    end_all()
    os._exit(128 + number)
