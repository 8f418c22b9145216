"""The next step of a run of the reference trainer, from its checkpoint and its own data.

Logits are computed as the run computes them. What a gradient of them moves is computed by the same
model in float64, so that only the errors under test remain, and the update is Adam's with the
checkpoint's moments.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lossleuth.labs.precision.step import Step, most_rows
from lossleuth.reference.train.checkpoint import Checkpoint, load_checkpoint
from lossleuth.reference.train.data import IGNORED, Batch, BatchOrder, make_batch
from lossleuth.reference.train.finished_run import own_data
from lossleuth.reference.train.loss import supervised_count
from lossleuth.reference.train.precision import autocast
from lossleuth.reference.train.resume import saved_settings
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.types.errors import BadInput


def next_step(path: Path, rows: int) -> Step:
    """The step that a run would make next, or as many rows of it as can be looked at."""
    checkpoint = load_checkpoint(path)
    settings, prepared = saved_settings(checkpoint), own_data(checkpoint)
    order = BatchOrder(len(prepared.training), settings.batch, settings.seed)
    number = checkpoint.header.step * settings.accumulation
    batch = make_batch(prepared.tokens, prepared.training, order.at(number))
    if len(batch.inputs_BT) < 2:
        raise BadInput(
            "two windows or more in a batch, to know the noise", "a batch of 1", "give logits"
        )
    model = checkpoint.model().eval()
    outputs: list[Tensor] = []
    logits_MV = _logits(model, batch, settings, outputs)
    kept_M = _kept(batch.targets_BT, most_rows(logits_MV.shape[1], rows))
    pull = _pull(model, batch, kept_M)
    targets_N = batch.targets_BT.flatten()[kept_M]
    logits_NV = logits_MV[kept_M].float()
    window_N = torch.arange(len(batch.inputs_BT)).repeat_interleave(batch.inputs_BT.shape[1])
    gradient_NV = logits_NV.double().softmax(-1) / len(logits_NV)
    gradient_NV[torch.arange(len(logits_NV)), targets_N] -= 1 / len(logits_NV)
    tensors = checkpoint.tensors
    return Step(
        f"step {checkpoint.header.step + 1} of {path}: {len(logits_NV)} of "
        f"{supervised_count(batch.targets_BT)} rows, V = {logits_NV.shape[1]}",
        logits_NV,
        targets_N,
        window_N[kept_M] % 2 == 0,
        pull,
        _adam(checkpoint, model, settings),
        "every parameter, by Adam with the checkpoint's moments",
        {
            "weights": [p.detach() for p in model.parameters()],
            "activations": outputs,
            "logits": [logits_NV],
            "gradient of logits": [gradient_NV],
            "gradients": [pull(gradient_NV)],
            "Adam's first moment": _of(tensors, ".exp_avg"),
            "Adam's second moment": _of(tensors, ".exp_avg_sq"),
        },
    )


def _logits(
    model: nn.Module, batch: Batch, settings: TrainSettings, outputs: list[Tensor]
) -> Tensor:
    """Logits as the run has them; on the way, what every module inside returns."""

    def note(module: nn.Module, _inputs: Any, output: Any) -> None:
        if module is not model and isinstance(output, Tensor) and output.is_floating_point():
            outputs.append(output.detach())

    handles = [module.register_forward_hook(note) for module in model.modules()]
    try:
        with torch.no_grad(), autocast(torch.device("cpu"), settings.precision):
            logits: Tensor = model(batch.inputs_BT)
    finally:
        for handle in handles:
            handle.remove()
    return logits.flatten(0, 1)


def _kept(targets_BT: Tensor, rows: int) -> Tensor:
    """Supervised rows, as many of each window, where not all can be looked at."""
    B = len(targets_BT)
    each = max(1, rows // B)
    there_BT = targets_BT != IGNORED
    there_BT &= there_BT.cumsum(1) <= each
    if B * each > rows:
        there_BT[max(2, rows) :] = False
    return there_BT.flatten().nonzero().squeeze(1)


def _pull(model: nn.Module, batch: Batch, kept_M: Tensor) -> Callable[[Tensor], Tensor]:
    twin = copy.deepcopy(model).double()
    logits_MV: Tensor = twin(batch.inputs_BT).flatten(0, 1)
    parameters = list(twin.parameters())

    def pull(gradient_NV: Tensor) -> Tensor:
        outer_MV = torch.zeros_like(logits_MV)
        outer_MV[kept_M] = gradient_NV
        found = torch.autograd.grad(logits_MV, parameters, outer_MV, retain_graph=True)
        return torch.cat([gradient.flatten() for gradient in found])

    return pull


def _adam(
    checkpoint: Checkpoint, model: nn.Module, settings: TrainSettings
) -> Callable[[Tensor], Tensor]:
    """Adam's next update, up to the rate and without decay, which no gradient changes."""
    moments: dict[str, list[Tensor]] = {"exp_avg": [], "exp_avg_sq": []}
    for name, _ in model.named_parameters():
        for moment, found in moments.items():
            found.append(checkpoint.tensors[f"optimizer.{name}.{moment}"].flatten().double())
    first, second = (torch.cat(found) for found in moments.values())
    made = checkpoint.header.step + 1
    beta1, beta2 = settings.beta1, settings.beta2

    def update(gradient: Tensor) -> Tensor:
        m = (beta1 * first + (1 - beta1) * gradient) / (1 - beta1**made)
        v = (beta2 * second + (1 - beta2) * gradient.square()) / (1 - beta2**made)
        return m / (v.sqrt() + settings.epsilon)

    return update


def _of(tensors: Any, ending: str) -> list[Tensor]:
    return [t for name, t in tensors.items() if name.endswith(ending)]
