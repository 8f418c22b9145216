"""The batches that a program evaluates its model on: logits without a gradient.

An evaluation is a forward pass without a graph whose scores a loss picks from, and which nothing
that is differentiated depends on. So a teacher is none, nor is a second look at a training batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import is_random
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.index import Index, without_graph
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.padding import padding_of
from lossleuth.tape.roles.picks import PICKS
from lossleuth.tape.roles.roles import Roles, roles_of, token_values
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Backward, Window

# Batches of one evaluation that are held at a time, and the scores in all of them (256 MB in
# float64). Picked by hand.
MAX_BATCHES, MAX_SCORES = 256, 1 << 25


@dataclass(frozen=True)
class EvaluatedBatch:
    """Scores by their number on the tape, a row for each position, and the tokens they are for."""

    logits: int
    rows_NV: Tensor
    # The same with nothing dropped; None where the program drops nothing.
    undropped_NV: Tensor | None
    tokens_BT: Tensor | None
    # Positions past the end of a text, and the token that stands there.
    past_N: Tensor | None
    pad: int | None

    @property
    def texts(self) -> int:
        """How many rows of tokens there are."""
        return 1 if self.tokens_BT is None else len(self.tokens_BT)


@dataclass(frozen=True)
class Found:
    """Batches in the order in which they were evaluated, and whether these are all."""

    batches: list[EvaluatedBatch]
    whole: bool
    problem: str | None = None


def evaluated_batches(window: Window, index: Index) -> Found:
    """Every batch that was evaluated within the window."""
    tape = window.tape
    followed = followed_operations(window)
    found: dict[int, EvaluatedBatch] = {}
    room, problem = MAX_SCORES, None
    for pick in _picks(tape, followed):
        made = pick.outputs[0]
        if made is None:
            continue
        recorded = index.excerpt([made], pick.number + 1)
        # Under autocast, cast weights ask for gradients even where nothing else may.
        excerpt = without_graph(recorded)
        run = Backward(len(excerpt.operations), [made], [None], {})
        roles = roles_of(excerpt, run)
        if roles.logits is None or roles.logits in found or _has_graph(recorded, roles.logits):
            continue
        room -= math.prod(tape.layouts[roles.logits].shape)
        if room < 0 or len(found) >= MAX_BATCHES:
            return Found(list(found.values()), whole=False, problem="it has too many scores")
        try:
            found[roles.logits] = _batch(excerpt, roles)
        except CannotReplay as reason:
            problem = str(reason)
    return Found(list(found.values()), whole=problem is None, problem=problem)


def followed_operations(window: Window) -> set[int]:
    """The numbers of the operations that lead to what is differentiated."""
    roots = [r for run in window.backwards for r in run.roots if r is not None]
    return {op.number for op in window.tape.needed_for(roots)} if roots else set()


def _picks(tape: Tape, followed: set[int]) -> Iterator[Operation]:
    for operation in tape.operations:
        if operation.name in PICKS and operation.number not in followed:
            yield operation


def _has_graph(tape: Tape, logits: int) -> bool:
    """Whether scores could be differentiated where they are used: then they are for training."""
    uses = [op for op in tape.operations if logits in op.inputs]
    return any(op.requires_grad[op.inputs.index(logits)] for op in uses)


def _batch(tape: Tape, roles: Roles) -> EvaluatedBatch:
    assert roles.logits is not None
    shape, classes = tape.layouts[roles.logits].shape, roles.vocabulary
    if not shape or shape[-1] != classes:
        raise CannotReplay("the classes are not the last axis of the logits")
    rows = _rows(tape, roles.logits)
    undropped = None
    if any(is_random(operation.kind) for operation in tape.operations):
        undropped = _rows(tape, roles.logits, dropout=False)
        undropped = None if torch.equal(undropped, rows) else undropped
    tokens = token_values(tape, roles)
    if tokens is None or tokens.dim() != 2 or tokens.numel() != len(rows):
        return EvaluatedBatch(
            logits=roles.logits,
            rows_NV=rows,
            undropped_NV=undropped,
            tokens_BT=None,
            past_N=None,
            pad=None,
        )
    pad, past = padding_of(tokens) if len(tokens) > 1 else (None, torch.zeros_like(tokens) > 0)
    return EvaluatedBatch(
        logits=roles.logits,
        rows_NV=rows,
        undropped_NV=undropped,
        tokens_BT=tokens,
        past_N=past.reshape(-1),
        pad=pad,
    )


def _rows(tape: Tape, logits: int, *, dropout: bool = True) -> Tensor:
    """In the recorded types: what the program had, not what it would have had in float64."""
    replay = Replay(tape, float64=False, gradients=False, dropout=dropout)
    made = replay.run([logits])[logits]
    return made.detach().reshape(-1, made.shape[-1]).clone()
