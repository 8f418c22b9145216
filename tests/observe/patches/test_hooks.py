"""The patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from loops import read, train, watching
from torch.nn import functional as F

PATCHED = [
    (torch.autograd, "_engine_run_backward"),
    (torch.optim.Optimizer, "__init__"),
    (torch.optim.lr_scheduler.LRScheduler, "__init__"),
    (torch.nn.utils, "clip_grad_norm_"),
    (torch.nn.utils.clip_grad, "clip_grad_norm_"),
    (torch.nn.utils, "clip_grad_value_"),
    (torch.amp.GradScaler, "step"),
    (torch.amp.GradScaler, "scale"),
    (F, "embedding"),
    (F, "cross_entropy"),
    (F, "nll_loss"),
    (torch.Tensor, "item"),
    (torch.Tensor, "__float__"),
]


def current() -> list[Any]:
    return [getattr(owner, name) for owner, name in PATCHED]


def test_everything_is_replaced_and_put_back(tmp_path: Path) -> None:
    before = current()
    own = {name for name in ("item", "__float__", "numpy") if name in vars(torch.Tensor)}
    with watching(tmp_path / "run"):
        assert all(a is not b for a, b in zip(before, current(), strict=True))
    assert all(a is b for a, b in zip(before, current(), strict=True))
    assert {n for n in ("item", "__float__", "numpy") if n in vars(torch.Tensor)} == own


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)
        self.out = torch.nn.Linear(4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.out(self.table(x)), x)


def test_torchscript_and_the_compiler_still_work_while_watched(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, tokens = Model(), torch.arange(5)
    expected = model(tokens)
    with watching(tmp_path / "run"):
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(tokens), expected)
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.allclose(torch.jit.script(model)(tokens), expected)


def test_reads_of_formatted_and_converted_numbers_are_the_users(tmp_path: Path) -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.1)
    with watching(tmp_path / "run"):
        for _ in range(2):
            loss = weight.sum()
            loss.backward()
            optimizer.step()
            f"{loss:.3f}"
            float(loss.detach())
            str(loss.detach())
            print(loss.detach().numpy())
    (reads, *_) = read(tmp_path / "run").values("reads")
    assert [value for value, _ in reads] == [2.0] * 4
    assert all(place.startswith(__file__) for _, place in reads)


def test_each_phase_has_its_time(tmp_path: Path) -> None:
    with watching(tmp_path / "run"):
        train(3)
    phases = read(tmp_path / "run").values("phases")[-1]
    assert {"forward", "backward", "update"} <= set(phases)
    assert all(seconds >= 0 for seconds in phases.values())
