"""Names of parameters, found without being given the model."""

from __future__ import annotations

import gc
from collections.abc import Sequence

from torch import Tensor, nn


def parameter_names(parameters: Sequence[Tensor]) -> list[str]:
    """The name that the module holding most of the parameters gives to each.

    Parameters that no module knows are named by place and shape.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    >>> import torch
    >>> parameter_names([model[0].bias, model[1].bias, torch.zeros(4, 5)])
    ['0.bias', '1.bias', 'tensor 2 (4x5)']
    """
    wanted = {id(parameter) for parameter in parameters}
    names: dict[int, str] = {}
    for module in _modules_by_cover(wanted):
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if id(parameter) in wanted:
                names.setdefault(id(parameter), name)
        if len(names) == len(wanted):
            break
    return [
        names.get(id(parameter)) or f"tensor {i} ({'x'.join(map(str, parameter.shape))})"
        for i, parameter in enumerate(parameters)
    ]


def _modules_by_cover(wanted: set[int]) -> list[nn.Module]:
    """All live modules that hold some of the parameters, those that hold most first.

    Of modules with the same cover the one with the fewest modules inside is the model itself
    rather than a wrapper around it.
    """
    # Looking a class up by type avoids __class__ properties of foreign objects.
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    covers = []
    for module in modules:
        try:
            held = sum(id(parameter) in wanted for parameter in module.parameters())
            inside = sum(1 for _ in module.modules())
        except Exception:  # a half-built or lazy module; another one will do
            continue
        if held:
            covers.append((-held, inside, module))
    covers.sort(key=lambda cover: cover[:2])
    return [module for _, _, module in covers]


def module_names() -> dict[nn.Module, str]:
    """Names of all live modules, each within its outermost module.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> module_names()[model[1]]
    '1'
    """
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    inner = {child for module in modules for child in module.children()}
    names: dict[nn.Module, str] = {}
    for outermost in (module for module in modules if module not in inner):
        for name, module in outermost.named_modules():
            names.setdefault(module, name or type(module).__name__)
    return names
