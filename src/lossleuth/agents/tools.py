"""What an assistant can ask for. Each tool's docstring is what the assistant reads of it."""

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
from lossleuth.agents.errand import BEAT_SECONDS, Done, Refused, Told, errand
from lossleuth.agents.fence import Fence
from lossleuth.run_directory import RunDirectory
from lossleuth.types.cause import Cause
from lossleuth.types.errors import BadInput

# A run plans with its budget, and may take so much longer to start and to tidy up.
OVERTIME, OVERTIME_SHARE = 30.0, 0.5
LONGEST = 3600.0

Request = Context[Any, Any]
Tool = Callable[..., Awaitable[CallToolResult]]
Directory = Annotated[str, Field(description="run directory, as `run` answered it")]
Limit = Annotated[float, Field(ge=1, le=LONGEST, description="seconds until it is given up")]


def plainly(tool: Tool) -> Tool:
    """Turn what cannot be carried out into an answer of one plain sentence."""

    @functools.wraps(tool)
    async def guarded(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            return await tool(*args, **kwargs)
        except BadInput as refusal:
            content = [TextContent(type="text", text=str(refusal))]
            return CallToolResult(content=[*content], is_error=True)

    return guarded


class Tools:
    """The tools, over the files of one directory."""

    def __init__(self, root: Path) -> None:
        self._fence = Fence(root)
        # Two examinations at a time would slow each other down, and take it for the program.
        self._turn = anyio.Lock()

    @plainly
    async def run(
        self,
        script: Annotated[str, Field(description="training script, run unchanged")],
        context: Request,
        arguments: Annotated[Sequence[str], Field(description="its own arguments")] = (),
        steps: Annotated[int, Field(ge=1, description="steps to observe at most")] = 200,
        budget: Annotated[float, Field(ge=1, le=LONGEST, description="seconds to plan with")] = 120,
        seeds: Annotated[int, Field(ge=1, description="pairs per trial; 3 can prove")] = 3,
    ) -> Annotated[CallToolResult, Examined]:
        """Find out why a PyTorch training script does not learn, and prove it.

        Runs the script unchanged, compares what it does with what correct programs do, and tries
        what is suspected in paired runs with one thing changed. The answer is verdict.json: causes
        with file, line, the deciding number and a remedy, and what was ruled out. After an edit,
        run it again: the repair holds when the cause is among the refuted. Given up, with an error,
        when it takes 30 s and half as long again as the budget.
        """
        path = self._fence.file(script)
        told = _telling(context)
        async with self._alone(told):
            directory = self._fence.new_run()
            name = str(directory.relative_to(self._fence.root))
            try:
                done = await errand(
                    "lossleuth",
                    [
                        *("run", "--json", "--steps", str(steps), "--budget", str(budget)),
                        *("--seeds", str(seeds), "--out", str(directory), str(path), *arguments),
                    ],
                    root=self._fence.root,
                    limit=OVERTIME + (1 + OVERTIME_SHARE) * budget,
                    told=told,
                    remedy=f"give a larger budget or fewer steps; what was seen is in {name}",
                )
            finally:
                # Nothing was run: nothing is left behind.
                with suppress(OSError):
                    directory.rmdir()
        return _examined(name, done)

    @plainly
    async def examine(
        self, directory: Directory, context: Request, budget: Limit = 60
    ) -> Annotated[CallToolResult, Examined]:
        """Judge a saved run again by its records, without running anything."""
        path = self._fence.run(directory)
        done = await self._ask(context, budget, "examine", "--json", str(path))
        return _examined(str(path.relative_to(self._fence.root)), done)

    @plainly
    async def compare(
        self, first: Directory, second: Directory, context: Request, budget: Limit = 60
    ) -> Annotated[CallToolResult, Compared]:
        """Put two saved runs side by side: what differs, and the first step where they part."""
        paths = [str(self._fence.run(given)) for given in (first, second)]
        done = await self._ask(context, budget, "compare", *paths)
        if done.code != 0:
            raise Refused(done.reason)
        return _answer({"markdown": done.output.decode(errors="replace")})

    @plainly
    async def explain(
        self, id: Annotated[str, Field(description="id of a cause, such as label_offset")]
    ) -> Annotated[CallToolResult, Explained]:
        """The page of a cause: meaning, how it is judged, how to fix it, when it is wrong."""
        known = catalogue.cause(id)
        return _answer(_known(known) | {"page": catalogue.page(known)})

    @plainly
    async def causes(self) -> Annotated[CallToolResult, Catalogue]:
        """All causes that can be found, with what each needs to be judged."""
        return _answer({"causes": [_known(cause) for cause in catalogue.causes()]})

    @plainly
    async def check_gradient(
        self,
        module: Annotated[str, Field(description="Python file that defines the three names")],
        context: Request,
        loss: Annotated[str, Field(description="function of the parameters")] = "loss",
        gradient: Annotated[str, Field(description="its gradient: function, or list")] = "gradient",
        parameters: Annotated[
            str, Field(description="list or mapping of tensors or arrays, or function giving one")
        ] = "parameters",
        budget: Limit = 60,
    ) -> Annotated[CallToolResult, GradientChecked]:
        """Check a gradient written by hand against the function it is the gradient of.

        The file is imported in a process of its own. `loss(*parameters)` gives a number,
        `gradient(*parameters)` one array for each parameter. The answer is pass, fail (and for
        which parameter) or cannot tell, with a bound that comes from rounding and measured noise.
        """
        path = self._fence.file(module)
        done = await errand(
            "lossleuth.agents.gradient_child",
            [str(path), loss, gradient, parameters],
            root=self._fence.root,
            limit=budget,
            told=_telling(context),
        )
        return _answer(done.answer)

    @asynccontextmanager
    async def _alone(self, told: Told) -> AsyncIterator[None]:
        """Wait until no other run is under way, and keep others waiting."""
        while True:
            with anyio.move_on_after(BEAT_SECONDS):
                if self._turn.locked():
                    await told("waiting for another run to end")
                await self._turn.acquire()
                break
        try:
            yield
        finally:
            self._turn.release()

    async def _ask(self, context: Request, limit: float, *arguments: str) -> Done:
        told = _telling(context)
        root = self._fence.root
        return await errand("lossleuth", arguments, root=root, limit=limit, told=told)


def _telling(context: Request) -> Told:
    """Progress is the seconds that have passed: it always grows, and promises nothing."""
    began = time.monotonic()

    async def told(sentence: str) -> None:
        await context.report_progress(time.monotonic() - began, None, sentence)

    return told


def _examined(directory: str, done: Done) -> CallToolResult:
    verdict = done.answer
    report = str(RunDirectory(Path(directory)).report("html"))
    return _answer({"directory": directory, "report": report, "verdict": verdict})


def _known(cause: Cause) -> dict[str, Any]:
    return {
        "id": cause.id,
        "stage": cause.stage.value,
        "summary": cause.summary,
        "needs": list(cause.needs_by_name),
        "overlaps": list(cause.overlaps),
    }


def _answer(answer: dict[str, Any]) -> CallToolResult:
    """The same twice, as data and as text, for clients that read only one of them."""
    text = json.dumps(answer, ensure_ascii=False)
    content = [TextContent(type="text", text=text)]
    return CallToolResult(content=[*content], structured_content=answer)
