"""The update replaced by a textbook rule, kept in float64 and rounded only where it is stored.

So it also tells what a rule does when the type of the weights swallows no update.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, copies, parameters_of

# What torch's Adam does where nothing else is said.
USUAL_BETAS, USUAL_EPSILON = (0.9, 0.999), 1e-8


@dataclass
class _Memory:
    """What the rule remembers of one weight."""

    weight: Tensor
    first: Tensor
    second: Tensor
    age: int = 0


class UseRule(Intervention):
    """Adam, AdamW or SGD with the settings that the program's optimizer has at that time.

    Settings that it does not have are taken from what torch does by default. With `usual`, so are
    its betas and its epsilon, whatever it has.
    """

    def __init__(self, rule: str = "AdamW", usual: bool = False) -> None:
        self._rule = rule
        self._usual = usual
        self._memory: dict[int, _Memory] = {}
        self._before: list[Tensor] = []
        self._gradients: list[Tensor | None] = []

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Remember what the rule needs."""
        parameters = parameters_of(optimizer)
        self._before = copies(parameters)
        self._gradients = [None if p.grad is None else p.grad.detach().double() for p in parameters]

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Undo the optimizer's step and apply the rule."""
        values = iter(zip(self._before, self._gradients, strict=True))
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    before, gradient = next(values)
                    parameter.data.copy_(before)
                    if gradient is not None:
                        parameter.data.copy_(self._applied(parameter, before, gradient, group))

    def _applied(
        self, parameter: Tensor, before: Tensor, gradient: Tensor, group: dict[str, object]
    ) -> Tensor:
        memory = self._memory.get(id(parameter))
        if memory is None or not torch.equal(memory.weight.to(before.dtype), before):
            wide = before.double()
            fresh = (torch.zeros_like(wide), torch.zeros_like(wide), 0)
            kept = fresh if memory is None else (memory.first, memory.second, memory.age)
            memory = self._memory[id(parameter)] = _Memory(wide, *kept)
        rate, decay = _number(group.get("lr"), 1e-3), _number(group.get("weight_decay"), 0.0)
        if self._rule == "SGD":
            gradient = gradient + decay * memory.weight
            momentum = _number(group.get("momentum"), 0.0)
            memory.first = momentum * memory.first + gradient
            step = gradient + momentum * memory.first if group.get("nesterov") else memory.first
            memory.weight = memory.weight - rate * step
            return memory.weight
        if self._rule == "Adam":
            gradient = gradient + decay * memory.weight
        betas = None if self._usual else group.get("betas")
        one, two = betas if isinstance(betas, tuple | list) else USUAL_BETAS
        memory.age += 1
        memory.first = one * memory.first + (1 - one) * gradient
        memory.second = two * memory.second + (1 - two) * gradient * gradient
        first = memory.first / (1 - one**memory.age)
        second = memory.second / (1 - two**memory.age)
        shrunk = memory.weight * (1 - rate * decay) if self._rule == "AdamW" else memory.weight
        epsilon = USUAL_EPSILON if self._usual else _number(group.get("eps"), USUAL_EPSILON)
        memory.weight = shrunk - rate * first / (second.sqrt() + epsilon)
        return memory.weight


def _number(value: object, otherwise: float) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value)
    return float(value) if isinstance(value, int | float) else otherwise
