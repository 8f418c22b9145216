"""Losses that a compiled kernel has computed: known by their value, and put on the tape as such.

A custom function may hand pointers to a library, and the loss then stands in memory that torch saw
being made and never saw being written. If it is the cross-entropy of the scores and classes that
the function was given, to the last digits, then that is what it computes; with the operations of a
cross-entropy in place of the ones that say nothing, everything upstream can be replayed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import FunctionCall, Layout, Operation, Ref, Tape

aten = torch.ops.aten
# Distance of the two values, as a share: kernels add up in float32.
SAME = 1e-4
MEAN, SUM = 1, 2
NONE_IGNORED = -100


def recognise_loss(tape: Tape, call: FunctionCall, number: int, value: float) -> bool:
    """Whether a call's single number is a cross-entropy; then the tape says so from now on."""
    maker = tape.makers().get(number)
    if maker is None or maker.number - 1 < call.first or not math.isfinite(value):
        return False
    inside = tape.operations[call.first : maker.number]
    known = {*call.inputs, *(o for op in inside for o in op.outputs if o is not None)}
    reached = {i for op in tape.needed_for([number], since=call.first) for i in op.inputs}
    scores = [i for i in known if _is_scores(tape, i) and i not in reached]
    for score in scores:
        rows = tape.layouts[score].shape[0]
        for target in known:
            layout = tape.layouts[target]
            whole = not layout.dtype.is_floating_point and layout.dtype is not torch.bool
            if whole and layout.shape == (rows,):
                found = _reduction(tape, score, target, maker.number, value)
                if found is not None:
                    _put(tape, maker, score, target, *found)
                    call.recognised = True
                    return True
    return False


def _is_scores(tape: Tape, number: int) -> bool:
    layout = tape.layouts[number]
    return layout.dtype.is_floating_point and len(layout.shape) == 2 and min(layout.shape) > 1


def _reduction(
    tape: Tape, score: int, target: int, before: int, value: float
) -> tuple[int, int] | None:
    """Mean or sum, and the class that is ignored, if the value is that of the cross-entropy."""
    try:
        made = Replay(tape, float64=False, gradients=False).run([score, target], before=before)
    except CannotReplay:
        return None
    scores, targets = made[score].detach().double(), made[target].long()
    outside = {int(t) for t in targets[(targets < 0) | (targets >= scores.shape[1])].tolist()}
    if len(outside) > 1:
        return None
    ignored = outside.pop() if outside else NONE_IGNORED
    for code, told in ((MEAN, "mean"), (SUM, "sum")):
        own = float(F.cross_entropy(scores, targets, ignore_index=ignored, reduction=told))
        if math.isfinite(own) and abs(own - value) <= SAME * abs(own):
            return code, ignored
    return None


def _put(
    tape: Tape, maker: Operation, score: int, target: int, reduction: int, ignored: int
) -> None:
    """The last two operations before the result become those of a cross-entropy."""
    logs, weight = len(tape.layouts), len(tape.layouts) + 1
    dtype = tape.layouts[score].dtype
    tape.layouts[logs] = tape.layouts[score]
    tape.layouts[weight] = Layout(dtype, (), ())
    tape.groups[logs], tape.groups[weight] = logs, weight
    at = maker.number
    empty: dict[str, Any] = {
        "several": False,
        "written": (),
        "kwargs": {},
        "recorded_results": None,
    }
    log_softmax = replace(
        maker,
        **empty,
        number=at - 1,
        kind=aten._log_softmax.default,
        args=(Ref(score), 1, False),
        inputs=(score,),
        requires_grad=(True,),
        outputs=(logs,),
    )
    nll = replace(
        maker,
        **(empty | {"several": True}),
        kind=aten.nll_loss_forward.default,
        args=(Ref(logs), Ref(target), None, reduction, ignored),
        inputs=(logs, target),
        requires_grad=(True, False),
        outputs=(maker.outputs[0], weight),
    )
    for operation in (log_softmax, nll):
        tape.replace_operation(operation)


def value_of(tensor: Tensor | None) -> float:
    """A single number, or NaN."""
    if tensor is None or tensor.numel() != 1 or not tensor.is_floating_point():
        return math.nan
    return float(tensor.detach())
