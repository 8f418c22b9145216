"""Is the update the one that the optimizer's rule gives?

For torch's own optimizers the rule is their plain code, run again in float64 from the recorded
state. For anybody else's, the rules that people write are tried, each with one thing different, and
the one that explains the update is named: so a missing bias correction is seen as what it is.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from lossleuth.findings.update import UpdateTruth
from lossleuth.probes.probe import Probe
from lossleuth.probes.update.update_rules import Facts, Rule, best_rule
from lossleuth.tape.replay.distance import distance, norm
from lossleuth.tape.window import Update, Window

# Settings that choose an implementation, not a rule.
IMPLEMENTATION_SETTINGS = (
    "foreach",
    "fused",
    "capturable",
    "differentiable",
    "decoupled_weight_decay",
)
# A rule explains an update if it leaves no more than this share of it. Picked by hand.
MAX_UNEXPLAINED_SHARE = 1e-3


def update_truths(window: Window) -> list[UpdateTruth]:
    """The updates that followed a backward pass of the window; those before are another step's."""
    first = window.backwards[0].at if window.backwards else 0
    return [_truth(update) for update in window.updates if update.after and update.at >= first]


def _truth(update: Update) -> UpdateTruth:
    kind = type(update.optimizer)
    name = kind.__name__
    moved = [a.double() - b.double() for a, b in zip(update.after, update.before, strict=True)]
    size = norm(moved)
    if not size:
        return _untested(name, "none", 0.0, "the update changed nothing")
    if any(g is not None and g.is_sparse for g in update.gradients):
        return _untested(name, "none", size, "the gradients are sparse")
    if kind.__module__.startswith("torch.optim"):
        try:
            true = _again(update, torch.float64)
            noisy = _again(update, None)
        except Exception as failure:
            detail = f"{type(failure).__name__}: {failure}"
            reason = f"the optimizer's own code failed on a copy: {detail}"
            return _untested(name, name, size, reason)
        error = _left(update.after, true) / size
        floor = max(_left(noisy, true), _rounding(true, update.after)) / size
        return UpdateTruth(name, name, error, floor, size)
    return _best_fit(update, name, moved, size)


def _untested(name: str, rule: str, size: float, reason: str) -> UpdateTruth:
    return UpdateTruth(name, rule, math.nan, math.nan, size, untested=reason)


def _again(update: Update, dtype: torch.dtype | None) -> list[Tensor]:
    """The parameters after the optimizer's own plain code, in this type."""

    def converted(value: Any) -> Any:
        if isinstance(value, Tensor):
            wide = dtype is not None and value.is_floating_point() and value.numel() > 1
            return value.to(dtype) if wide else value.clone()
        return value

    parameters = []
    for before, gradient in zip(update.before, update.gradients, strict=True):
        parameter = torch.nn.Parameter(converted(before).clone())
        parameter.grad = None if gradient is None else converted(gradient)
        parameters.append(parameter)
    groups, at = [], 0
    for settings in update.groups:
        count = settings["count"]
        kept = {k: v for k, v in settings.items() if k not in (*IMPLEMENTATION_SETTINGS, "count")}
        groups.append({"params": parameters[at : at + count]} | kept)
        at += count
    optimizer = type(update.optimizer)(groups, **_needed(update))
    for group in optimizer.param_groups:
        for manner in ("foreach", "fused"):
            if manner in group:
                group[manner] = False
    for parameter, state in zip(parameters, update.state, strict=True):
        if state:
            optimizer.state[parameter] = {k: converted(v) for k, v in state.items()}
    optimizer.step()
    return [parameter.detach() for parameter in parameters]


def _needed(update: Update) -> dict[str, Any]:
    rate = update.groups[0].get("lr")
    if rate is None:
        return {}
    return {"lr": float(rate)}


def _left(found: list[Tensor], true: list[Tensor]) -> float:
    return math.hypot(*(distance(f, t) for f, t in zip(found, true, strict=True)))


def _rounding(true: list[Tensor], after: list[Tensor]) -> float:
    """What is lost by writing the true result in the parameter's own type."""
    return math.hypot(*(distance(t.to(a.dtype), t) for t, a in zip(true, after, strict=True)))


# optimizers that are not torch's


def _best_fit(update: Update, name: str, moved: list[Tensor], size: float) -> UpdateTruth:
    facts, at = [], 0
    for settings in update.groups:
        for i in range(at, at + settings["count"]):
            gradient = update.gradients[i]
            if gradient is not None:
                facts.append((i, _facts_of(update, settings, i, gradient)))
        at += settings["count"]
    if not facts:
        return _untested(name, "none", size, "the update used no gradient")
    # The weight that moved most has the most digits to distinguish rules by.
    largest = max((known for _, known in facts), key=lambda known: float(known.moved.norm()))
    rule = best_rule(largest)
    if rule is None:
        return _untested(name, "none", size, "the optimizer holds no numbers that a rule could use")
    left = math.hypot(*(_unexplained(rule, known) for _, known in facts)) / size
    floor = _rounding([w.double() for w in update.after], update.after) / size
    rounding = [w.abs().double() * torch.finfo(w.dtype).eps for w in update.after]
    floor = max(floor, norm(rounding) / size)
    explained = left <= MAX_UNEXPLAINED_SHARE + floor
    return UpdateTruth(name, rule.name, left, floor, size, explained)


def _unexplained(rule: Rule, known: Facts) -> float:
    """What a rule leaves of one weight's move, with the numbers of that weight's own group."""
    try:
        here = distance(known.moved, rule.move(known))
    except (KeyError, RuntimeError):
        here = math.inf
    if here <= MAX_UNEXPLAINED_SHARE * norm([known.moved]):
        return here
    # Groups may have rates and decays of their own.
    own = best_rule(known)
    same = own is not None and own.name == rule.name
    return min(here, distance(known.moved, own.move(known))) if same and own else here


def _facts_of(update: Update, settings: dict[str, Any], i: int, gradient: Tensor) -> Facts:
    before, after = update.before[i].double(), update.after[i].double()
    held = {k: v for k, v in settings.items() if k != "count"}
    state_after = update.state_after[i] if update.state_after else {}
    return Facts(
        weight=before,
        gradient=gradient.double(),
        moved=after - before,
        before=update.state[i],
        after=state_after,
        settings=held,
    )


PROBE = Probe(UpdateTruth, lambda a: update_truths(a.window))
