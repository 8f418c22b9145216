"""The tools of the MCP server. An assistant reads each tool's docstring as its description."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, TextContent
from pydantic import Field

from lossleuth import catalogue
from lossleuth.agents.answers import Catalogue, Compared, Examined, Explained, GradientChecked
from lossleuth.agents.command import (
    HEARTBEAT_SECONDS,
    CommandResult,
    Refused,
    ReportProgress,
    run_command,
)
from lossleuth.agents.fence import Fence
from lossleuth.run_directory import RunDirectory
from lossleuth.types.cause import Cause
from lossleuth.types.errors import BadInput

# A run may exceed its budget by this much, to start and to clean up.
OVERTIME_SECONDS, OVERTIME_SHARE = 30.0, 0.5
MAX_SECONDS = 3600.0

Request = Context[Any, Any]
Tool = Callable[..., Awaitable[CallToolResult]]
Directory = Annotated[str, Field(description="run directory, as returned by `run`")]
Limit = Annotated[float, Field(ge=1, le=MAX_SECONDS, description="time limit in seconds")]


def with_plain_errors(tool: Tool) -> Tool:
    """Turn BadInput into an error result of one plain sentence."""

    @functools.wraps(tool)
    async def guarded(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            return await tool(*args, **kwargs)
        except BadInput as refusal:
            content = [TextContent(type="text", text=str(refusal))]
            return CallToolResult(content=[*content], is_error=True)

    return guarded


class Tools:
    """The tools, for the files of one directory."""

    def __init__(self, root: Path) -> None:
        self._fence = Fence(root)
        # Two examinations at once would slow each other down and blame the program for it.
        self._turn = anyio.Lock()

    @with_plain_errors
    async def run(
        self,
        script: Annotated[str, Field(description="training script, run unchanged")],
        context: Request,
        arguments: Annotated[Sequence[str], Field(description="its own arguments")] = (),
        steps: Annotated[
            int | None,
            Field(ge=1, description="observe at most this many steps; all that fit if not given"),
        ] = None,
        budget: Annotated[
            float, Field(ge=1, le=MAX_SECONDS, description="time budget in seconds")
        ] = 120,
        seeds: Annotated[
            int, Field(ge=1, description="paired runs per trial; a proof needs 3")
        ] = 3,
    ) -> Annotated[CallToolResult, Examined]:
        """Find out why a PyTorch training script does not learn, and prove it.

        Runs the script unchanged, compares what it does with what a correct program does, and tests
        each suspicion in paired runs with one thing changed. Returns verdict.json: causes with
        file, line, the deciding number and a remedy, and what was ruled out. After an edit, run it
        again: the fix works if the cause is now refuted. Fails with an error if it takes longer
        than 1.5 times the budget plus 30 s.
        """
        path = self._fence.file(script)
        report_progress = _progress_reporter(context)
        async with self._alone(report_progress):
            directory = self._fence.new_run()
            name = str(directory.relative_to(self._fence.root))
            try:
                result = await run_command(
                    "lossleuth",
                    [
                        *("run", "--json", "--budget", str(budget)),
                        *(() if steps is None else ("--steps", str(steps))),
                        *("--seeds", str(seeds), "--out", str(directory), str(path), *arguments),
                    ],
                    root=self._fence.root,
                    limit=OVERTIME_SECONDS + (1 + OVERTIME_SHARE) * budget,
                    report_progress=report_progress,
                    remedy=f"give a larger budget or fewer steps; what was recorded is in {name}",
                )
            finally:
                # Only an empty directory is removed: nothing was run.
                with suppress(OSError):
                    directory.rmdir()
        return _examined(name, result)

    @with_plain_errors
    async def examine(
        self, directory: Directory, context: Request, budget: Limit = 60
    ) -> Annotated[CallToolResult, Examined]:
        """Judge a saved run again from its records, without running anything."""
        path = self._fence.run(directory)
        result = await self._ask(context, budget, "examine", "--json", str(path))
        return _examined(str(path.relative_to(self._fence.root)), result)

    @with_plain_errors
    async def compare(
        self, first: Directory, second: Directory, context: Request, budget: Limit = 60
    ) -> Annotated[CallToolResult, Compared]:
        """Compare two saved runs: what differs, and the first step at which they diverge."""
        paths = [str(self._fence.run(given)) for given in (first, second)]
        result = await self._ask(context, budget, "compare", *paths)
        if result.code != 0:
            raise Refused(result.reason)
        return _answer({"markdown": result.stdout.decode(errors="replace")})

    @with_plain_errors
    async def explain(
        self, id: Annotated[str, Field(description="id of a cause, such as label_offset")]
    ) -> Annotated[CallToolResult, Explained]:
        """Explain a cause: what it means, how it is judged, how to fix it, when it is wrong."""
        cause = catalogue.cause(id)
        return _answer(_entry(cause) | {"page": catalogue.page(cause)})

    @with_plain_errors
    async def causes(self) -> Annotated[CallToolResult, Catalogue]:
        """List all causes that lossleuth can find, with the evidence each needs."""
        return _answer({"causes": [_entry(cause) for cause in catalogue.causes()]})

    @with_plain_errors
    async def check_gradient(
        self,
        module: Annotated[str, Field(description="Python file that defines the three names")],
        context: Request,
        loss: Annotated[str, Field(description="function of the parameters")] = "loss",
        gradient: Annotated[str, Field(description="its gradient: function or list")] = "gradient",
        parameters: Annotated[
            str, Field(description="list or dict of tensors or arrays, or function returning one")
        ] = "parameters",
        budget: Limit = 60,
    ) -> Annotated[CallToolResult, GradientChecked]:
        """Check a hand-written gradient against the function it claims to differentiate.

        The file is imported in its own process. `loss(*parameters)` returns a number,
        `gradient(*parameters)` one array per parameter. The answer is pass, fail (and for which
        parameter) or cannot tell, with a bound derived from rounding and measured noise.
        """
        path = self._fence.file(module)
        result = await run_command(
            "lossleuth.agents.gradient_child",
            [str(path), loss, gradient, parameters],
            root=self._fence.root,
            limit=budget,
            report_progress=_progress_reporter(context),
        )
        return _answer(result.answer)

    @asynccontextmanager
    async def _alone(self, report_progress: ReportProgress) -> AsyncIterator[None]:
        """Wait until no other run is in progress, and make others wait."""
        while True:
            with anyio.move_on_after(HEARTBEAT_SECONDS):
                if self._turn.locked():
                    await report_progress("waiting for another run to finish")
                await self._turn.acquire()
                break
        try:
            yield
        finally:
            self._turn.release()

    async def _ask(self, context: Request, limit: float, *arguments: str) -> CommandResult:
        return await run_command(
            "lossleuth",
            arguments,
            root=self._fence.root,
            limit=limit,
            report_progress=_progress_reporter(context),
        )


def _progress_reporter(context: Request) -> ReportProgress:
    """Reports elapsed seconds as progress: they always grow, and promise no end."""
    began = time.monotonic()

    async def report_progress(sentence: str) -> None:
        await context.report_progress(time.monotonic() - began, None, sentence)

    return report_progress


def _examined(directory: str, result: CommandResult) -> CallToolResult:
    verdict = result.answer
    report = str(RunDirectory(Path(directory)).report("html"))
    return _answer({"directory": directory, "report": report, "verdict": verdict})


def _entry(cause: Cause) -> dict[str, Any]:
    return {
        "id": cause.id,
        "stage": cause.stage.value,
        "summary": cause.summary,
        "needs": list(cause.needs_by_name),
        "overlaps": list(cause.overlaps),
    }


def _answer(answer: dict[str, Any]) -> CallToolResult:
    """The answer as data and again as text, for clients that read only one of them."""
    text = json.dumps(answer, ensure_ascii=False)
    content = [TextContent(type="text", text=text)]
    return CallToolResult(content=[*content], structured_content=answer)
