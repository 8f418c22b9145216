"""The next step of a run of the trainer."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from lossleuth.labs.precision.from_checkpoint import next_step
from lossleuth.reference.train.checkpoint import load_checkpoint
from lossleuth.reference.train.data import BatchOrder, make_batch
from lossleuth.reference.train.finished_run import own_data
from lossleuth.reference.train.loop import make_optimizer
from lossleuth.reference.train.loss import mean_loss
from lossleuth.reference.train.session import Session
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.settings import Resolved
from lossleuth.types.errors import BadInput

TEXT = "she sells sea shells by the sea shore. the shells she sells are sea shells. "
SETTINGS = TrainSettings(
    context=16, batch=4, layers=1, heads=2, width=16, steps=4, warmup=2, lr=1e-2, weight_decay=0.0
)


def trained(folder: Path, settings: TrainSettings) -> Path:
    (folder / "text.txt").write_text(TEXT * 20)
    settings = replace(settings, data=(str(folder / "text.txt"),))
    sources = dict.fromkeys(settings.__dataclass_fields__, "test")
    Session(Resolved(settings, sources), folder / "run", Console(file=io.StringIO())).run()
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("trained"), SETTINGS)


def test_the_gradient_and_the_update_are_the_trainers_own(run: Path) -> None:
    """Against autograd and AdamW themselves, on the batch that the run would take next."""
    step, checkpoint = next_step(run, 1000), load_checkpoint(run)
    model = checkpoint.model().double()
    prepared = own_data(checkpoint)
    order = BatchOrder(len(prepared.training), SETTINGS.batch, SETTINGS.seed)
    batch = make_batch(prepared.tokens, prepared.training, order.at(SETTINGS.steps))
    mean_loss(model(batch.inputs_BT), batch.targets_BT).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    expected = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    exact = step.logits_NV.double().softmax(-1)
    exact[torch.arange(len(exact)), step.targets_N] -= 1
    found = step.pull(exact / len(exact))
    # The logits are float32, and everything after them float64.
    assert (found - expected).norm() <= 16 * 2**-23 * expected.norm()

    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    settings = replace(SETTINGS, lr=1.0)
    optimizer = make_optimizer(model, settings)
    checkpoint.restore_optimizer(model, optimizer)
    for state in optimizer.state.values():
        state["exp_avg"], state["exp_avg_sq"] = (
            state["exp_avg"].double(),
            state["exp_avg_sq"].double(),
        )
    optimizer.step()
    moved = before - torch.cat([p.detach().flatten() for p in model.parameters()])
    assert (step.update(expected) - moved).norm() <= 1e-6 * moved.norm()


def test_rows_are_the_supervised_ones_and_halves_are_of_windows(run: Path) -> None:
    step = next_step(run, 1000)
    assert len(step.logits_NV) == 64 and step.half_N.sum() == 32
    assert step.half_N[:16].all() and not step.half_N[16:32].any()
    assert "step 5 of" in step.source and "64 of 64 rows" in step.source


def test_where_not_all_rows_fit_each_window_gives_as_many(run: Path) -> None:
    step = next_step(run, 12)
    assert len(step.logits_NV) == 12 and step.half_N.sum() == 6
    whole = next_step(run, 1000)
    assert torch.equal(step.logits_NV[:3], whole.logits_NV[:3])
    assert torch.equal(step.logits_NV[3:6], whole.logits_NV[16:19])
    assert next_step(run, 2).half_N.tolist() == [True, False]


def test_every_class_of_tensors_is_there(run: Path) -> None:
    classes = next_step(run, 1000).classes
    assert list(classes) == [
        "weights",
        "activations",
        "logits",
        "gradient of logits",
        "gradients",
        "Adam's first moment",
        "Adam's second moment",
    ]
    assert all(tensor.numel() for tensors in classes.values() for tensor in tensors)
    weights = sum(t.numel() for t in classes["weights"])
    assert weights == sum(t.numel() for t in classes["Adam's second moment"])
    assert weights == classes["gradients"][0].numel()


def test_one_window_alone_has_no_noise_to_compare_with(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="two windows or more"):
        next_step(trained(tmp_path, replace(SETTINGS, batch=1)), 1000)


def test_data_that_have_changed_are_refused(tmp_path: Path) -> None:
    folder = trained(tmp_path, SETTINGS)
    (tmp_path / "text.txt").write_text(TEXT * 19)
    with pytest.raises(BadInput, match="the data that the run was made with"):
        next_step(folder, 1000)
