"""Everything in a process that a watch may touch, to compare before and after."""

from __future__ import annotations

import atexit
import os
import random
import sys
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as modules
from torch.nn.utils import clip_grad
from torch.optim import lr_scheduler, optimizer
from torch.utils.data import dataloader

from lossleuth.observe.provenance import opened_files
from lossleuth.torch_internals import dispatch_modes, loaded_compiler_settings, loaded_stances

OWNERS: tuple[Any, ...] = (
    *(torch, torch.autograd, torch.nn.functional, torch.nn.utils, clip_grad, torch.random),
    *(torch.Tensor, torch.optim.Optimizer, lr_scheduler.LRScheduler, torch.amp.GradScaler),
    *(dataloader._BaseDataLoaderIter, torch.nn.Module, np.random, random),
)
HOOKS = {
    "forward": modules._global_forward_hooks,
    "forward pre": modules._global_forward_pre_hooks,
    "forward always": modules._global_forward_hooks_always_called,
    "step pre": optimizer._global_optimizer_pre_hooks,
    "step post": optimizer._global_optimizer_post_hooks,
}


def process_state(*importers: dict[str, Any]) -> dict[str, Any]:
    """What is where; `importers` are the globals of modules that hold functions by name."""
    state: dict[str, Any] = {}
    for owner in OWNERS:
        for name, value in vars(owner).items():
            # What is imported for the first time meanwhile is not our doing.
            if not isinstance(value, ModuleType):
                state[f"{owner.__name__}.{name}"] = value
    for number, names in enumerate(importers):
        state |= {f"importer {number} {name}": value for name, value in names.items()}
    state |= {f"hooks: {name}": list(hooks) for name, hooks in HOOKS.items()}
    settings, stances = loaded_compiler_settings(), loaded_stances()
    return state | {
        "dispatch modes": dispatch_modes(),
        "filters": list(warnings.filters),
        "environment": dict(os.environ),
        "atexit": atexit._ncallbacks(),
        "finders": list(sys.meta_path),
        "listening": list(opened_files._listening),
        "compiler": None if settings is None else settings.disable,
        "stance": None if stances is None else stances._set_stance,
        "python's chance": random.getstate(),
        "numpy's chance": np.random.get_state()[1].tolist(),
        "torch's chance": torch.get_rng_state().tolist(),
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was."""
    return [
        name
        for name in before.keys() | after.keys()
        if before.get(name) is not after.get(name) and not _equal(before, after, name)
    ]


def _equal(before: dict[str, Any], after: dict[str, Any], name: str) -> bool:
    if name not in before or name not in after or callable(before[name]):
        return False
    return bool(before[name] == after[name])
