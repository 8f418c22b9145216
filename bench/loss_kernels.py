"""Cross-entropy and its gradient against torch's, eager and compiled, and the memory's own limit.

Each rival makes loss and gradient of the same logits in a process of its own; rounds are
interleaved. The limit is one multiplication in place of as many numbers: each read and written
once. In place, a rival's gradient is its next logits, which does not change what it costs. Torch's
eager loss runs twice: its ratio to itself is the noise of the measurement. Much of eager's time
goes into pages that the system clears afresh in every step; how many is printed, and beside it
eager's time where torch's allocator keeps its memory.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from bench.interleaved import Ratio, Rounds, Side, race, speed_ratio, start
from lossleuth.kernels import (
    cross_entropy,
    cross_entropy_with_gradient,
    linear_cross_entropy,
)
from lossleuth.kernels.row_losses import Options, prepare
from lossleuth.kernels.supervision import supervise
from lossleuth.native import library as native
from lossleuth.reference.train.allocator import keep_freed_memory

# Rows and columns, steps in a round, seconds for all rounds.
SHAPES = (
    ((4096, 34), 100, 24.0),
    ((4096, 2004), 10, 40.0),
    ((4096, 32000), 1, 45.0),
    ((1024, 128256), 1, 45.0),
)
# Rows, width of the hidden states, columns.
LINEAR = (1024, 256, 128256)
LINEAR_BUDGET = 60.0


def run(console: Console) -> None:
    """Race at each shape and print the tables."""
    absent = native.why_absent()
    kernels = "native kernels" if absent is None else f"no native kernels: {absent}"
    console.print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; float32; {kernels}",
        highlight=False,
    )
    for shape, steps, budget in SHAPES:
        compare(console, shape, steps, budget)
    compare_linear(console)


def batch(shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Logits, and targets of which one in ten does not count."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.empty(shape).normal_(generator=generator)
    targets = torch.randint(0, shape[1], shape[:1], generator=generator)
    targets[::10] = -100
    return logits, targets


def limit(shape: tuple[int, int]) -> Iterator[float]:
    """Reads and writes every number once."""
    logits, _ = batch(shape)
    while True:
        logits.mul_(1.0000001)
        yield 0.0


def eager(shape: tuple[int, int], keep: bool = False) -> Iterator[float]:
    """As everybody writes it; on request with the allocator that keeps its memory."""
    if keep:
        keep_freed_memory()
    logits, targets = batch(shape)
    logits.requires_grad_()
    while True:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        logits.grad = None
        F.cross_entropy(logits, targets).backward()
        yield float(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def compiled(shape: tuple[int, int]) -> Iterator[float]:
    """The same through torch.compile."""
    logits, targets = batch(shape)
    logits.requires_grad_()
    function = torch.compile(F.cross_entropy, dynamic=False)

    def step() -> float:
        logits.grad = None
        function(logits, targets).backward()
        return 0.0

    step()
    while True:
        yield step()


def in_place(shape: tuple[int, int], exact: bool) -> Iterator[float]:
    """Ours, with the gradient where the logits were."""
    logits, targets = batch(shape)
    while True:
        yield cross_entropy_with_gradient(logits, targets, inplace=True, exact=exact)[0]


def native_alone(shape: tuple[int, int]) -> Iterator[float]:
    """What the function in place spends in the library, without the Python around it."""
    logits, targets = batch(shape)
    supervision = supervise(targets, None, shape, -100)
    options = Options().weighing(1.0, supervision.count, "mean")
    prepared = prepare(logits, supervision, options, logits, None)
    if prepared is None:
        raise RuntimeError(f"expected native kernels, found none: {native.why_absent()}")
    library, problem = prepared
    threads = torch.get_num_threads()
    while True:
        yield library.cross_entropy(ctypes.addressof(problem), threads)[1]


def drop_in(shape: tuple[int, int]) -> Iterator[float]:
    """Ours in place of torch's function."""
    logits, targets = batch(shape)
    logits.requires_grad_()
    while True:
        logits.grad = None
        cross_entropy(logits, targets).backward()
        yield 0.0


def compare(console: Console, shape: tuple[int, int], steps: int, budget: float) -> None:
    """One shape: each rival's time, against the limit and against eager."""
    sides = [
        Side("memory limit", limit, (shape,)),
        Side("eager", eager, (shape,)),
        Side("eager again", eager, (shape,)),
        Side("eager, memory kept", eager, (shape, True)),
        Side("compiled", compiled, (shape,)),
        Side("ours, in place", in_place, (shape, False)),
        Side("ours, exact, in place", in_place, (shape, True)),
        Side("ours, its native call alone", native_alone, (shape,)),
        Side("ours, drop-in", drop_in, (shape,)),
    ]
    with ExitStack() as stack:
        rivals = start(sides, stack)
        for rival in rivals:
            rival.steps(3)
        rounds = race(rivals, steps, budget)
        faults = np.median(rivals[1].steps(3).values)
    quiet = rounds.quiet()
    table = Table("", "ms", "time / limit", "eager / it", "compiled / it", title=f"{shape}")
    of_limit, of_eager, of_compiled = quiet.seconds[0], quiet.seconds[1], quiet.seconds[4]
    for side, seconds in zip(sides, quiet.seconds, strict=True):
        table.add_row(
            side.name,
            f"{np.median(seconds) / steps * 1e3:.3f}",
            str(speed_ratio(of_limit, seconds)),
            str(speed_ratio(seconds, of_eager)),
            str(speed_ratio(seconds, of_compiled)),
        )
    console.print(table)
    console.print(f"page faults of a step of eager: {faults:.0f}", highlight=False)
    tell_rounds(console, rounds, quiet)


def eager_linear(rows: int, depth: int, columns: int) -> Iterator[float]:
    """Logits of all rows, and their loss."""
    return descend(
        layer(rows, depth, columns),
        lambda hidden, weight, targets: F.cross_entropy(hidden @ weight.t(), targets),
    )


def fused_linear(rows: int, depth: int, columns: int) -> Iterator[float]:
    """Ours, with a few rows of logits at a time."""
    return descend(layer(rows, depth, columns), linear_cross_entropy)


def descend(
    tensors: tuple[Tensor, Tensor, Tensor], function: Callable[..., Tensor]
) -> Iterator[float]:
    """Loss and gradients; the tensors are made before, and are no memory of the step's."""
    hidden, weight, targets = tensors
    while True:
        hidden.grad = weight.grad = None
        loss = function(hidden, weight, targets)
        loss.backward()
        yield loss.item()


def layer(rows: int, depth: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, the last layer's weight, and targets."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.empty(rows, depth).normal_(generator=generator).requires_grad_()
    weight = torch.empty(columns, depth).normal_(std=0.02, generator=generator).requires_grad_()
    return hidden, weight, torch.randint(0, columns, (rows,), generator=generator)


def compare_linear(console: Console) -> None:
    """The last layer and its loss: time and memory."""
    sides = [
        Side("eager", eager_linear, LINEAR),
        Side("eager again", eager_linear, LINEAR),
        Side("ours", fused_linear, LINEAR),
    ]
    with ExitStack() as stack:
        rivals = start(sides, stack)
        losses = [rival.steps(2).values[-1] for rival in rivals]
        rounds = race(rivals, 1, LINEAR_BUDGET)
        memory = [rival.memory() for rival in rivals]
    quiet = rounds.quiet()
    extra = [found.peak - found.before for found in memory]
    rows, depth, columns = LINEAR
    title = f"last layer and loss, N = {rows}, D = {depth}, V = {columns}"
    table = Table("", "ms", "eager / it", "extra memory, MB", "eager's / its", title=title)
    for side, seconds, megabytes in zip(sides, quiet.seconds, extra, strict=True):
        ratio: Ratio = speed_ratio(seconds, quiet.seconds[0])
        milliseconds = f"{np.median(seconds) * 1e3:.0f}"
        share = f"{extra[0] / megabytes:.2f}"
        table.add_row(side.name, milliseconds, str(ratio), f"{megabytes:.0f}", share)
    console.print(table)
    console.print(f"losses: {losses[0]:.7f} and {losses[2]:.7f}", highlight=False)
    tell_rounds(console, rounds, quiet)


def tell_rounds(console: Console, rounds: Rounds, quiet: Rounds) -> None:
    """How undisturbed the rounds were."""
    console.print(
        f"{len(rounds.foreign)} rounds, {len(quiet.foreign)} of them quiet: other processes took "
        f"at most {quiet.foreign.max():.0%} of the processors there, "
        f"{np.median(rounds.foreign):.0%} in the median of all",
        highlight=False,
    )
