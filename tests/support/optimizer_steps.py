"""Optimizers at work, measured by passes in one call each and by passes one by one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from lossleuth.native.optimizer_pass import OptimizerPass
from lossleuth.observe.steps.parameters.moments import moments_of

Optimizer = torch.optim.Optimizer
SIZES = ((40, 50), (64,), (200, 100), (3, 4))


def weights(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(size).to(dtype)) for size in SIZES]


def give_gradients(parameters: list[nn.Parameter], step: int) -> None:
    torch.manual_seed(step)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape).to(parameter.dtype)


def held(optimizer: Optimizer) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def one_by_one(measured: OptimizerPass, optimizer: Optimizer) -> tuple[bytes, bytes]:
    """What the passes find that are given every list."""
    parameters = held(optimizer)
    measured.before_update(parameters, [p.grad for p in parameters])
    optimizer.step()
    first, second, ages, thresholds = moments_of(optimizer, parameters)
    measured.after_update(first, second, thresholds)
    return measured.results(), np.array(ages).tobytes()


def in_one_call(measured: OptimizerPass, optimizer: Optimizer) -> tuple[bytes, bytes] | None:
    if not measured.before_step(held(optimizer), optimizer.param_groups):
        return None
    optimizer.step()
    return measured.after_step(optimizer.param_groups, optimizer.state)


def groups(parameters: list[nn.Parameter]) -> list[dict[str, Any]]:
    return [
        {"params": parameters[:1], "eps": 1e-3, "betas": (0.8, 0.9)},
        {"params": []},
        {"params": parameters[1:], "eps": 0.1},
    ]


MADE: dict[str, Callable[[list[nn.Parameter]], Optimizer]] = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    "Adam in groups": lambda parameters: torch.optim.Adam(groups(parameters), lr=1e-2),
    "amsgrad": lambda parameters: torch.optim.Adam(parameters, amsgrad=True),
    "fused": lambda parameters: torch.optim.AdamW(parameters, fused=True),
    "NAdam": lambda parameters: torch.optim.NAdam(parameters),
    "a rate in a tensor": lambda parameters: torch.optim.AdamW(parameters, lr=torch.tensor(0.1)),
}


def check_both_ways(
    make: Callable[[list[nn.Parameter]], Optimizer], dtype: torch.dtype = torch.float32
) -> None:
    """Both ways give the same bits, step by step; one parameter is a step younger."""
    parameters = weights(dtype)
    others = copy.deepcopy(parameters)
    optimizer, other = make(parameters), make(others)
    for each, its_optimizer in ((parameters, optimizer), (others, other)):
        give_gradients(each, 0)
        its_optimizer.step()
        each[1].grad = None
        its_optimizer.step()
    quick, slow = OptimizerPass(parameters), OptimizerPass(others)
    for step in range(3, 6):
        give_gradients(parameters, step)
        give_gradients(others, step)
        found, expected = in_one_call(quick, optimizer), one_by_one(slow, other)
        assert found == expected
        assert np.frombuffer(expected[1]).tolist() == [step, step - 1, step, step]
