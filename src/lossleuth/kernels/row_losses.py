"""The losses of rows and their gradient, by the library where it can read them, else by torch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lossleuth.kernels import losses_fallback
from lossleuth.kernels.supervision import Supervision, address
from lossleuth.native import library as native
from lossleuth.native.fallback import is_held
from lossleuth.native.handles import PLAIN
from lossleuth.native.table import TYPES

# What the library reads.
NATIVE = (torch.float32, torch.bfloat16)
# With fewer elements than these one thread does all the work.
MIN_ELEMENTS_FOR_THREADS = 20_000
NO_ROWS = torch.empty(0, dtype=torch.float64)

_Place, _Count, _Number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


class Layout(ctypes.Structure):
    """Where rows lie, as `rows.h` has it."""

    _fields_ = (
        ("base", _Place),
        ("inner", _Count),
        ("stride", _Count),
        ("outer_stride", _Count),
    )


class Problem(ctypes.Structure):
    """A cross-entropy, as `losses.cpp` has it."""

    _fields_ = (
        ("logits", Layout),
        ("gradient", Layout),
        ("targets", _Place),
        ("mask", _Place),
        ("losses", _Place),
        ("type", _Count),
        ("rows", _Count),
        ("width", _Count),
        ("ignored", _Count),
        ("exact", _Count),
        ("inverse_temperature", _Number),
        ("smoothing", _Number),
        ("weight", _Number),
    )


class Pair(ctypes.Structure):
    """A divergence, as `divergence.cpp` has it."""

    _fields_ = (
        ("student", Layout),
        ("teacher", Layout),
        ("gradient", Layout),
        ("mask", _Place),
        ("losses", _Place),
        ("type", _Count),
        ("rows", _Count),
        ("width", _Count),
        ("exact", _Count),
        ("inverse_temperature", _Number),
        ("weight", _Number),
    )


class Options(NamedTuple):
    """How a row's loss is taken, and what each row weighs in the loss that the gradient is of."""

    temperature: float = 1.0
    smoothing: float = 0.0
    weight: float = 1.0
    exact: bool = False

    def weighing(self, factor: float, count: int, reduction: str) -> Options:
        """The same, with each row weighing as it does in the mean or the sum.

        >>> Options().weighing(3.0, 2, "mean").weight
        1.5
        """
        weight = factor / count if reduction == "mean" else factor
        return Options(self.temperature, self.smoothing, weight, self.exact)


def cross_entropy_rows(
    logits: Tensor,
    supervision: Supervision,
    options: Options,
    gradient: Tensor | None,
    each: bool = True,
) -> tuple[Tensor, float]:
    """Each row's loss in float64, 0 where it does not count, and their sum.

    The gradient of the weighted sum goes to `gradient`, which may be the logits themselves. Where
    `each` is False the rows' own losses are not wanted, and may be missing.

    >>> from lossleuth.kernels.supervision import supervise
    >>> logits = torch.zeros(2, 4)
    >>> supervision = supervise(torch.tensor([1, -100]), None, (2, 4), -100)
    >>> losses, total = cross_entropy_rows(logits, supervision, Options(), logits)
    >>> round(total, 4), logits.tolist()
    (1.3863, [[0.25, -0.75, 0.25, 0.25], [0.0, 0.0, 0.0, 0.0]])
    """
    losses = torch.empty(supervision.targets.numel(), dtype=torch.float64) if each else NO_ROWS
    prepared = prepare(logits, supervision, options, gradient, losses if each else None)
    if prepared is None:
        losses = _without_library(logits, gradient)(
            logits,
            supervision.targets,
            supervision.counts(),
            temperature=options.temperature,
            smoothing=options.smoothing,
            weight=options.weight,
            exact=options.exact,
            gradient=gradient,
        )
        return losses, float(losses.sum())
    library, problem = prepared
    failed, total = library.cross_entropy(ctypes.addressof(problem), _threads(logits))
    _require_memory(failed)
    return losses, total


def prepare(
    logits: Tensor,
    supervision: Supervision,
    options: Options,
    gradient: Tensor | None,
    losses: Tensor | None,
) -> tuple[native.Library, Problem] | None:
    """The library and what it is asked for; None where it cannot read or write the tensors."""
    library = native.load()
    found = None if library is None else _layouts(logits, gradient)
    if library is None or found is None or not supervision.targets.is_cpu:
        return None
    return library, Problem(
        logits=found[0],
        gradient=found[1],
        targets=supervision.targets.data_ptr(),
        mask=address(supervision.mask),
        losses=address(losses),
        type=TYPES[logits.dtype],
        rows=supervision.targets.numel(),
        width=logits.shape[-1],
        ignored=supervision.ignored,
        exact=options.exact,
        inverse_temperature=1 / options.temperature,
        smoothing=options.smoothing,
        weight=options.weight,
    )


def divergence_rows(
    student: Tensor,
    teacher: Tensor,
    mask: Tensor | None,
    options: Options,
    gradient: Tensor | None,
) -> tuple[Tensor, float]:
    """Each row's divergence in float64, 0 where it does not count, and their sum.

    The gradient of the student's logits goes to `gradient`, which may be these themselves.

    >>> student, teacher = torch.zeros(1, 2), torch.tensor([[0.0, -torch.inf]])
    >>> losses, total = divergence_rows(student, teacher, None, Options(), student)
    >>> round(total, 4), student.tolist()
    (0.6931, [[-0.5, 0.5]])
    """
    library = native.load()
    of_teacher = None if library is None else _layout(teacher)
    found = None if library is None else _layouts(student, gradient)
    rows = student.numel() // student.shape[-1]
    same = student.dtype is teacher.dtype and (mask is None or mask.is_cpu)
    if library is None or found is None or of_teacher is None or not same:
        counts = torch.ones(rows, dtype=torch.bool, device=student.device) if mask is None else mask
        losses = losses_fallback.divergence_rows(
            student,
            teacher,
            counts,
            temperature=options.temperature,
            weight=options.weight,
            exact=options.exact,
            gradient=gradient,
        )
        return losses, float(losses.sum())
    losses = torch.empty(rows, dtype=torch.float64)
    pair = Pair(
        student=found[0],
        teacher=of_teacher,
        gradient=found[1],
        mask=address(mask),
        losses=losses.data_ptr(),
        type=TYPES[student.dtype],
        rows=rows,
        width=student.shape[-1],
        exact=options.exact,
        inverse_temperature=1 / options.temperature,
        weight=options.weight,
    )
    failed, total = library.divergence(ctypes.addressof(pair), _threads(student))
    _require_memory(failed)
    return losses, total


def in_rows(tensor: Tensor) -> bool:
    """Whether each row of a tensor [N, V] or [B, T, V] lies in one piece.

    >>> in_rows(torch.zeros(3, 4)[:, :2]), in_rows(torch.zeros(3, 4).t())
    (True, False)
    """
    return tensor.stride(-1) == 1 or tensor.shape[-1] == 1


def _without_library(logits: Tensor, gradient: Tensor | None) -> Callable[..., Tensor]:
    """Triton's kernel on a GPU where it is installed and can read the logits, else torch's."""
    if logits.is_cuda:
        # Not at the top: where Triton is installed, importing it takes a second.
        from lossleuth.kernels import losses_triton

        if losses_triton.can_read(logits) and (gradient is None or gradient.is_contiguous()):
            return losses_triton.cross_entropy_rows
    return losses_fallback.cross_entropy_rows


# The fields of a `Layout`: ctypes makes one of them where it is needed, in half the time.
_Fields = tuple[int | None, int, int, int]


def _layouts(logits: Tensor, gradient: Tensor | None) -> tuple[_Fields, _Fields] | None:
    """Of both, where the library can read and write them."""
    of_logits = _layout(logits)
    if gradient is logits:
        of_gradient = of_logits
    else:
        of_gradient = (None, 0, 0, 0) if gradient is None else _layout(gradient)
    return None if of_logits is None or of_gradient is None else (of_logits, of_gradient)


def _layout(tensor: Tensor) -> _Fields | None:
    """None where the library cannot read a tensor."""
    if (
        type(tensor) not in PLAIN
        or tensor.dtype not in NATIVE
        or not tensor.is_cpu
        or tensor.layout is not torch.strided
        or tensor.is_neg()
        or not in_rows(tensor)
        or not is_held(tensor)
    ):
        return None
    if tensor.dim() == 2:
        return tensor.data_ptr(), max(tensor.shape[0], 1), tensor.stride(0), 0
    return tensor.data_ptr(), max(tensor.shape[1], 1), tensor.stride(1), tensor.stride(0)


def _threads(logits: Tensor) -> int:
    return torch.get_num_threads() if logits.numel() >= MIN_ELEMENTS_FOR_THREADS else 1


def _require_memory(failed: int) -> None:
    if failed:
        raise MemoryError("expected memory for a few rows of logits, found none left")
