"""The update against its rule."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from steps import recorded_step

from lossleuth.findings.update import UpdateTruth
from lossleuth.probes.update.update_truth import update_truths


def update_of(make: Any) -> UpdateTruth:
    (found,) = update_truths(recorded_step(make_optimizer=make))
    return found


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, lr=1e-3, amsgrad=True),
        lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
        lambda p: torch.optim.RMSprop(p, lr=1e-3),
        lambda p: torch.optim.Adagrad(p, lr=1e-2),
        lambda p: torch.optim.NAdam(p, lr=1e-3),
        lambda p: torch.optim.Adamax(p, lr=1e-3),
    ],
)
def test_torchs_own_optimizers_follow_their_rules(make: Any) -> None:
    found = update_of(make)
    assert found.untested is None
    assert found.error < 1e-3
    assert found.error < 10 * found.floor


def test_an_update_that_was_tampered_with_is_seen() -> None:
    window = recorded_step()
    window.updates[0].after[0] += 1e-4
    (found,) = update_truths(window)
    assert found.error > 100 * found.floor


class HandAdam(torch.optim.Optimizer):
    """An Adam as people write it, with one thing that may be wrong."""

    corrects, decoupled = True, True

    def __init__(self, params: Any) -> None:
        super().__init__(
            params, {"lr": 1e-3, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
        )

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state |= {"step": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
                state["step"] += 1
                g = p.grad
                if not self.decoupled:
                    g = g + group["weight_decay"] * p
                state["m"].mul_(one).add_(g, alpha=1 - one)
                state["v"].mul_(two).addcmul_(g, g, value=1 - two)
                m, v = state["m"], state["v"]
                if self.corrects:
                    m, v = m / (1 - one ** state["step"]), v / (1 - two ** state["step"])
                if self.decoupled:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))


@pytest.mark.parametrize(
    ("corrects", "decoupled", "rule"),
    [
        (True, True, "AdamW"),
        (True, False, "Adam"),
        (False, True, "AdamW without bias correction"),
        (False, False, "Adam without bias correction"),
    ],
)
def test_the_rule_of_a_hand_written_optimizer_is_recognised(
    corrects: bool, decoupled: bool, rule: str
) -> None:
    kind = type("Own", (HandAdam,), {"corrects": corrects, "decoupled": decoupled})
    found = update_of(kind)
    assert found.untested is None
    assert found.rule == rule


class Sign(torch.optim.Optimizer):
    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1e-3})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad.sign() * p.grad.abs().sqrt())


def test_an_unknown_rule_is_measured_and_not_explained() -> None:
    found = update_of(Sign)
    assert found.untested is None and not found.explained
    assert found.error > 0.01
