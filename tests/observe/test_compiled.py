"""Programs that are compiled: the compiler meets nothing of ours, and steps are seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import torch
from loops import watching
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.decorators import skip
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import lossleuth
from lossleuth.interventions.optimizer.scale_lr import ScaleLr
from lossleuth.observe.steps import step_writer as closed
from lossleuth.observe.stop import Limit
from lossleuth.record.read import Record

OURS = str(Path(lossleuth.__file__).parent)
STEPS = 5
# The compiler warns of its own doings, with no hook of ours there.
pytestmark = pytest.mark.filterwarnings("ignore")


class Model(torch.nn.Module):
    """The compiler has to stop in the middle, and Python goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)
        self.out = torch.nn.Linear(4, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded = self.table(tokens)
        torch._dynamo.graph_break()
        if embedded.sum().item() > 1e9:
            raise OverflowError
        return F.cross_entropy(self.out(embedded), tokens)


class Signs(torch.optim.Optimizer):
    """An optimizer of the program's own, with nothing in it that stops the compiler."""

    def __init__(self, parameters: Iterator[torch.nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # as users write it
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(group["lr"] * parameter.grad.sign())


class Wrapped(torch.optim.Adam):
    """What ends the graph is out of sight, in the step of the base class."""

    def step(self) -> None:  # type: ignore[override]  # as users write it
        super().step()


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Functions that are compiled, by file and name; every step is written at once."""
    names: list[str] = []

    def note(code: CodeType, _new: CodeType) -> None:
        names.append(f"{code.co_filename}:{code.co_name}")

    monkeypatch.setattr(closed, "MAX_WAIT_SECONDS", 0.0)
    torch._dynamo.reset()
    hook = register_bytecode_hook(note)
    yield names
    hook.remove()
    torch._dynamo.reset()


def train(kind: str) -> list[float]:
    """Losses of a program that is compiled in one way or another."""
    torch.manual_seed(0)
    model = Model()
    own = kind == "own update"
    adam = Wrapped if kind == "wrapped update" else torch.optim.Adam
    optimizer = Signs(model.parameters(), 0.01) if own else adam(model.parameters())
    called = torch.compile(model, backend="eager") if kind == "model" else model

    def update() -> None:
        optimizer.step()

    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = called(tokens)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        update()
        return loss

    if "update" in kind:
        update = torch.compile(update, backend="eager", fullgraph=own)
    if kind == "step":
        step = torch.compile(step, backend="eager")
    return [step(torch.randint(0, 10, (6,))).item() for _ in range(STEPS)]


@pytest.mark.parametrize("tape", [(), (1,)])
@pytest.mark.parametrize("kind", ["model", "step", "update", "own update", "wrapped update"])
def test_the_compiler_meets_nothing_of_ours(
    tmp_path: Path, kind: str, tape: tuple[int, ...], compiled: list[str]
) -> None:
    alone = train(kind)
    assert compiled
    torch._dynamo.reset()
    folder = tmp_path / "run"
    with watching(folder, tape, activations=not tape) as observer:
        watched = train(kind)
    assert observer.session.failures.first is None
    assert [name for name in compiled if name.startswith(OURS)] == []
    if not (tape and kind in ("update", "wrapped update")):
        # Uncompiled, as in a recorded step, torch's Adam rounds otherwise.
        assert watched == alone
    with Record.open(folder) as record:
        assert record.steps.tolist() == list(range(STEPS))
        assert record.series("backwards").tolist() == [1] * STEPS
        assert record.series("updates").tolist() == [1] * STEPS
        assert (record.matrix("update_rms", slice(0, None)) > 0).all()
        if kind in ("model", "step", "update"):
            assert record.values("updated_by") == [["Adam"]] * STEPS
            assert record.series("lr").tolist() == [1e-3] * STEPS


@skip
def everything(rows: torch.Tensor) -> list[float]:
    """Run by Python, with the compiler asked about every function that is called."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cpu")
    losses = []
    for (tokens,) in DataLoader(TensorDataset(rows), batch_size=2):
        loss: torch.Tensor = model(tokens.flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        losses.append(loss.item())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(rows[0])
        loss.backward()
        return loss

    optimizer.step(closure)
    return losses


CHANGES = (ScaleLr(1.0),)


@pytest.mark.parametrize(
    ("tape", "changes"), [((), ()), ((0, 1), ()), ((), CHANGES)], ids=["plain", "taped", "changed"]
)
def test_nothing_of_ours_is_compiled_where_python_runs_the_program(
    tmp_path: Path, tape: tuple[int, ...], changes: Any, compiled: list[str]
) -> None:
    rows = torch.randint(0, 10, (8, 5))
    program = torch.compile(everything, backend="eager")
    alone = program(rows)
    assert any(name.endswith(":forward") for name in compiled)
    torch._dynamo.reset()
    more = {"interventions": changes, "limit": Limit(steps=50)}
    with watching(tmp_path / "run", tape, **more) as observer:
        watched = program(rows)
    assert observer.session.failures.first is None
    assert [name for name in compiled if name.startswith(OURS)] == []
    assert watched == alone
    with Record.open(tmp_path / "run") as record:
        assert record.steps.tolist() == list(range(5))
