"""A program without autograd, watched as a whole."""

from __future__ import annotations

from pathlib import Path

from lossleuth.findings.no_autograd import HandStep
from lossleuth.observe.launch.executor import Background, RunSpec
from lossleuth.observe.launch.program import Program
from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import recorded_steps

SCRIPT = """
import torch
torch.manual_seed(0)
x, target = torch.randn(16, 4), torch.randn(16, 1)
params = {"w": torch.randn(4, 1), "b": torch.zeros(1, 1)}
for step in range(60):
    error = x @ params["w"] + params["b"] - target
    loss = (error ** 2).mean()
    d = 2 * error / len(x)
    grads = {"w": x.t() @ d, "b": d.sum(0, keepdim=True)FACTOR}
    for name in params:
        params[name] -= 0.05 * grads[name]
    if step % 10 == 0:
        print(step, float(loss))
"""


COMPILED = """
@torch.compile(backend="eager", fullgraph=True)
def residual(x, w, b, target):
    return x @ w + b - target
"""


def watched(folder: Path, factor: str = "", script: str = SCRIPT) -> Record:
    (folder / "train.py").write_text(script.replace("FACTOR", factor))
    plan = RunSpec(folder / "run", 30, 30.0, tape=(1, 8), by_hand=True)
    (finished,) = Background(Program(folder / "train.py"), 1).run([plan])
    assert (finished.code, finished.problem) == (0, None)
    return Record.open(folder / "run")


def hand_steps(record: Record) -> list[HandStep]:
    return [found for step in recorded_steps(record, ["tape"]) for found in step.all(HandStep)]


def test_steps_losses_and_truth_are_recorded(tmp_path: Path) -> None:
    with watched(tmp_path) as record:
        assert len(record.steps) == 30
        losses = record.series("loss")
        assert losses[20] < losses[5]
        found = hand_steps(record)
    assert [f.wrong for f in found] == [(), ()]
    assert set(found[0].right) == {"params['w']", "params['b']"}


def test_a_wrong_gradient_is_seen_with_its_name(tmp_path: Path) -> None:
    with watched(tmp_path, " + x.mean()") as record:
        found = hand_steps(record)
    # The sum itself is right and is what the rest is added to.
    assert all(f.error < 1e-6 or f.wrong == ("params['b']",) for f in found)


def test_what_has_to_be_compiled_as_a_whole_still_runs(tmp_path: Path) -> None:
    script = SCRIPT.replace("torch.manual_seed(0)", COMPILED + "torch.manual_seed(0)").replace(
        'x @ params["w"] + params["b"] - target', 'residual(x, params["w"], params["b"], target)'
    )
    assert "error = residual(" in script
    with watched(tmp_path, script=script) as record:
        assert len(record.steps) == 30
        found = hand_steps(record)
    assert [f.wrong for f in found] == [(), ()]
