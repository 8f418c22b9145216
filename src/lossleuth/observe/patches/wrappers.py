"""Wrappers of torch functions that report each call to the observer.

None computes anything; each calls the original with the arguments it was given. For the compiler
they are the original.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lossleuth.observe.steps.observer import Observer
from lossleuth.places import reads_for_the_user
from lossleuth.tape.capture.compiler_marks import compiling, never_compile, transparent_to_compiler

Standing = Callable[..., Any]


def clipping_by_norm(original: Standing, observer: Observer) -> Standing:
    """Replaces `clip_grad_norm_`."""

    @transparent_to_compiler
    @functools.wraps(original)
    def clip_norm(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
        norm = original(parameters, max_norm, *args, **kwargs)
        if not compiling():
            observer.clipped(norm, max_norm, sys._getframe(1))
        return norm

    return clip_norm


def clipping_by_value(original: Standing, observer: Observer) -> Standing:
    """Replaces `clip_grad_value_`."""

    @transparent_to_compiler
    @functools.wraps(original)
    def clip_value(parameters: Any, clip_value: float, *args: Any, **kwargs: Any) -> Any:
        if not compiling():
            parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            observer.about_to_clip_by_value(parameters, clip_value, sys._getframe(1))
        return original(parameters, clip_value, *args, **kwargs)

    return clip_value


def scaling(original: Standing, observer: Observer) -> Standing:
    """Replaces `GradScaler.scale`."""

    @transparent_to_compiler
    @functools.wraps(original)
    def scale(grad_scaler: Any, outputs: Any) -> Any:
        result = original(grad_scaler, outputs)
        if not compiling():
            observer.loss_scaled(grad_scaler, outputs, result)
        return result

    return scale


def reading(original: Standing, observer: Observer) -> Standing:
    """Replaces a method that reads a number from a tensor."""

    # In reach of the compiler where it is not remembered yet.
    never_compile(reads_for_the_user.__wrapped__)

    @transparent_to_compiler
    @functools.wraps(original)
    def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        value = original(tensor, *args, **kwargs)
        if not compiling():
            caller = sys._getframe(1)
            if reads_for_the_user(caller.f_code.co_filename):
                observer.value_read(tensor, value, caller)
        return value

    return read


def loading(original: Standing, observer: Observer) -> Standing:
    """Replaces `__next__` of a data loader's iterator."""

    @transparent_to_compiler
    @functools.wraps(original)
    def following(iterator: Any) -> Any:
        batch = original(iterator)
        if not compiling() and torch.is_grad_enabled():
            observer.batch_loaded(batch)
        return batch

    return following


def module_listener(observer: Observer) -> Standing:
    """A hook that receives every module's output."""

    @transparent_to_compiler
    def after(module: nn.Module, _inputs: Any, output: Any) -> None:
        if not compiling() and torch.is_grad_enabled() and isinstance(output, Tensor):
            observer.module_returned(module, output)

    return after
