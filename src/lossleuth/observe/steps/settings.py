"""Settings as they are at run time, whatever the script or a file says they are."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from lossleuth.observe.sampling import is_sampled
from lossleuth.observe.steps.parameters.table import ParameterTable


def resolved_settings(
    optimizers: Iterable[torch.optim.Optimizer],
    schedulers: Iterable[Any] = (),
    places: Mapping[Any, str] | None = None,
    trained: Callable[[Any], int | None] = lambda _: None,
) -> dict[str, Any]:
    """Hyper-parameters of every group of every optimizer, without the moving rate.

    `places` tells where in the user's code each was made, `trained` the number of what it trains.

    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> settings = resolved_settings([torch.optim.SGD([weight], lr=0.1, momentum=0.9)])
    >>> settings["optimizers"][0]["groups"][0]["momentum"]
    0.9
    """
    made = {} if places is None else places
    return {
        "optimizers": [
            _optimizer(o) | {"place": made.get(o), "trained": trained(o)} for o in optimizers
        ],
        "schedulers": [
            _scheduler(s)
            | {"place": made.get(s), "trained": trained(getattr(s, "optimizer", None))}
            for s in schedulers
        ],
    }


class ChangedSettings:
    """Detects changed settings; checked in sampled steps."""

    def __init__(self) -> None:
        self._known: object = None
        self._seen = 0

    def optimizers(self, table: ParameterTable, step: int) -> list[torch.optim.Optimizer] | None:
        """The optimizers whose settings to record, or None if nothing changed."""
        if table.optimizers_seen == self._seen and not is_sampled(step):
            return None
        self._seen, optimizers = table.optimizers_seen, table.optimizers
        signature = settings_signature(optimizers)
        if signature == self._known:
            return None
        self._known = signature
        return optimizers


def settings_signature(optimizers: Iterable[torch.optim.Optimizer]) -> object:
    """Something cheap that changes when the settings do."""
    return [
        (id(optimizer), [(len(group["params"]), _without_rate(group)) for group in groups])
        for optimizer in optimizers
        for groups in (optimizer.param_groups,)
    ]


def _without_rate(group: dict[str, Any]) -> list[Any]:
    return [
        value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        for name, value in group.items()
        if name not in ("params", "lr")
    ]


def _optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    groups = [
        {name: _plain(value) for name, value in group.items() if name not in ("params", "lr")}
        | {"tensors": len(group["params"]), "elements": sum(p.numel() for p in group["params"])}
        for group in optimizer.param_groups
    ]
    kind = type(optimizer)
    return {"class": kind.__name__, "module": kind.__module__, "groups": groups}


def _scheduler(scheduler: Any) -> dict[str, Any]:
    kind = type(scheduler)
    constant = {
        name: _plain(value)
        for name, value in vars(scheduler).items()
        if not name.startswith("_") and name not in ("optimizer", "last_epoch")
    }
    functions = [
        f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        for function in getattr(scheduler, "lr_lambdas", ())
        if hasattr(function, "__code__")
    ]
    return {
        "class": kind.__name__,
        "module": kind.__module__,
        "settings": {name: value for name, value in constant.items() if value is not None},
        "functions": functions,
    }


def _plain(value: Any) -> Any:
    """Numbers, strings and short sequences of them; None for what has no plain form."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Number):
        return value if isinstance(value, int | float) else str(value)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    if isinstance(value, list | tuple) and len(value) <= 16:
        return [_plain(item) for item in value]
    return None
