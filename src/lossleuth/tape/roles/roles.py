"""What the tensors of a step mean, found from how they are used and never from names.

Targets are what a loss picks its probabilities by; logits are what those probabilities were made
of; tokens are the whole numbers that were looked up on the way to the logits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from lossleuth.tape.op_schemas import MASKS, MOVES
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.features import Features, Fused, find_features, find_fused
from lossleuth.tape.roles.inferred_targets import infer_targets
from lossleuth.tape.roles.picks import Pick, picks_of, uses_autograd
from lossleuth.tape.roles.tokens import Tokens, find_tokens, values_of
from lossleuth.tape.tape import Operation, Ref, Tape
from lossleuth.tape.walk_back import origin, through_moves
from lossleuth.tape.window import Backward, Window

# Parts of one loss. Picked by hand: a step of a loop over time, or a chunk of rows.
MAX_PARTS = 2048
SOFTMAXES = frozenset(("_log_softmax", "_softmax", "log_softmax", "softmax", "logsumexp"))


@dataclass(frozen=True)
class Roles:
    """Tensors by their number on the tape; None if not found."""

    run: Backward
    # The logits as the model returned them, before any slicing.
    logits: int | None
    class_axis: int
    vocabulary: int | None
    # The input of the loss's softmax, one row for each target.
    scores: int | None
    scores_at: int | None
    targets: int | None
    ignored: int | None
    tokens: int | None
    tokens_at: int | None
    # The features, if there are logits for some positions only.
    features: Features | None = None
    # The matrix that makes logits of the features inside a function.
    output_weight: int | None = None
    # Operations that take the tokens: a loop over time takes them one by one.
    tokens_used: frozenset[int] = frozenset()
    # The target of each row, read off the gradient of a loss that is written by hand.
    inferred: Tensor | None = None
    # Each class has a loss of its own.
    is_binary: bool = False
    # Further rows, of a loss that is taken in several parts.
    more: tuple[Roles, ...] = ()

    @property
    def parts(self) -> tuple[Roles, ...]:
        """The roles in each part of the loss; mostly there is one."""
        return (self, *self.more)

    @property
    def has_targets(self) -> bool:
        """Whether it is known what the logits are compared with."""
        return self.targets is not None or self.inferred is not None


def find_roles(window: Window) -> Roles | None:
    """The roles in the backward pass with most operations; None if there was none."""
    return window.once("roles", lambda: _find_roles(window))


def _find_roles(window: Window) -> Roles | None:
    runs = [run for run in window.backwards if all(root is not None for root in run.roots)]
    if not runs:
        return None
    tape = window.tape
    return roles_in(window, max(runs, key=lambda r: len(_leading_to(tape, r))))


def roles_in(window: Window, run: Backward) -> Roles:
    """The roles in what one backward pass differentiates, also of a loss written by hand."""
    roles = roles_of(window.tape, run)
    if roles.targets is None and roles.features is None:
        return _with_inferred(window, run) or roles
    return roles


def roles_of(tape: Tape, run: Backward) -> Roles:
    """The roles in what one backward pass differentiates."""
    operations = _leading_to(tape, run)
    makers = tape.makers()
    picks = picks_of(tape, operations)
    pick = max(picks, key=lambda one: (one.size, one.operation.number), default=None)
    softmax = _softmax(tape, operations, makers, None if pick is None else pick.source)
    fused = find_fused(tape, makers, run.at, MOVES)
    if fused is not None and (softmax is None or pick is None):
        return _fused_roles(tape, run, fused)
    if softmax is None:
        return _without_logits(run, pick)
    scores, at, axis = softmax.inputs[0], softmax.number, _axis(softmax, tape)
    if pick is not None and not _leads_to(tape, makers, softmax, pick.source):
        # Picked from as they are, and normalised beside, perhaps in a way that changes them.
        scores, at, axis = pick.source, pick.operation.number, _axis(pick.operation, tape)
    elif pick is not None:
        joined = _joined(tape, run, [p for p in picks if p.is_turn_of(pick)])
        if joined is not None:
            return joined
        scores, at, axis = _taken_from(tape, softmax, pick)
    part = _part(tape, run, scores, at, axis)
    if pick is not None:
        part = replace(part, targets=pick.targets, ignored=pick.ignored)
    return _with_tokens(tape, [part]) or part


def _without_logits(run: Backward, pick: Pick | None) -> Roles:
    return Roles(
        run=run,
        logits=None,
        class_axis=-1,
        vocabulary=None,
        scores=None,
        scores_at=None,
        targets=None if pick is None else pick.targets,
        ignored=None if pick is None else pick.ignored,
        tokens=None,
        tokens_at=None,
    )


def _part(tape: Tape, run: Backward, scores: int, at: int, axis: int) -> Roles:
    """Some rows of logits, without their targets and tokens."""
    makers = tape.makers()
    vocabulary = tape.layouts[scores].shape[axis]
    logits = _unmoved(tape, makers, scores, vocabulary)
    return Roles(
        run=run,
        logits=logits,
        class_axis=axis,
        vocabulary=vocabulary,
        scores=scores,
        scores_at=at,
        targets=None,
        ignored=None,
        tokens=None,
        tokens_at=None,
        features=find_features(tape, makers, logits, MOVES),
    )


def _joined(tape: Tape, run: Backward, turns: list[Pick]) -> Roles | None:
    """The roles of a loss that a loop takes part by part; None if it does not."""
    if not 1 < len(turns) <= MAX_PARTS:
        return None
    makers, parts = tape.makers(), list[Roles]()
    for turn in sorted(turns, key=lambda one: one.operation.number):
        softmax = makers.get(origin(turn.source, lambda i: _only_moved(tape, makers, i)))
        if softmax is None or softmax.name not in SOFTMAXES:
            return None
        part = _part(tape, run, *_taken_from(tape, softmax, turn))
        parts.append(replace(part, targets=turn.targets, ignored=turn.ignored))
    if len({part.scores for part in parts}) < len(parts):
        return None
    whole = _with_tokens(tape, parts)
    if whole is None or whole.tokens is None:
        return None
    # Several heads predict several tokens at each position; parts share the positions.
    return whole if _rows(tape, parts) <= _count(tape, whole.tokens) else None


def _taken_from(tape: Tape, softmax: Operation, pick: Pick) -> tuple[int, int, int]:
    """What rows of scores are taken from, where, and their class axis.

    That is what goes into the softmax; where rows were left out since, and nothing else was done to
    them, what comes out: a softmax leaves log-probabilities as they are.
    """
    is_fewer = pick.size < _count(tape, softmax.inputs[0])
    source = origin(pick.source, through_moves(tape.makers()))
    if "log" in softmax.name and is_fewer and source in softmax.outputs:
        return pick.source, pick.operation.number, _axis(pick.operation, tape)
    return softmax.inputs[0], softmax.number, _axis(softmax, tape)


def _with_tokens(tape: Tape, parts: list[Roles]) -> Roles | None:
    """These parts, the first with the others, each with the tokens that all are made of."""
    logits = [part.logits for part in parts if part.logits is not None]
    rows = [_rows(tape, parts)]
    features = {part.features.number for part in parts if part.features is not None}
    for number in features if len(features) == 1 else ():
        shape = tape.layouts[number].shape
        rows.append(_count(tape, number) // max(shape[-1] if shape else 1, 1))
    found = find_tokens(tape, logits, rows, parts[0].vocabulary or 0)
    if found is None:
        return None if len(parts) > 1 else replace(parts[0], features=None)
    # With one row of logits for each token, features are not needed.
    needed = found.count != rows[0] and found.count == rows[-1]
    parts = [
        replace(
            part,
            features=part.features if needed else None,
            tokens=found.number,
            tokens_at=found.at,
            tokens_used=found.used,
        )
        for part in parts
    ]
    return replace(parts[0], more=tuple(parts[1:]))


def _with_inferred(window: Window, run: Backward) -> Roles | None:
    """The roles in a loss that picks nothing, by what its gradient is; None if that is no help."""
    found = infer_targets(window, run)
    if found is None:
        return None
    part = _part(window.tape, run, found.scores, found.at, found.axis)
    part = replace(part, inferred=found.targets, is_binary=found.binary)
    return _with_tokens(window.tape, [part])


def _fused_roles(tape: Tape, run: Backward, fused: Fused) -> Roles:
    """Roles where logits exist only inside a function, a few at a time."""
    shape = tape.layouts[fused.features.number].shape
    rows = [_count(tape, fused.features.number) // max(shape[-1], 1)]
    tokens = find_tokens(tape, [fused.features.number], rows, fused.classes)
    return Roles(
        run=run,
        logits=None,
        class_axis=-1,
        vocabulary=fused.classes,
        scores=None,
        scores_at=None,
        targets=fused.targets,
        ignored=None,
        tokens=None if tokens is None else tokens.number,
        tokens_at=None if tokens is None else tokens.at,
        tokens_used=frozenset() if tokens is None else tokens.used,
        features=fused.features,
        output_weight=fused.weight,
    )


def _leading_to(tape: Tape, run: Backward) -> list[Operation]:
    return tape.needed_for([root for root in run.roots if root is not None], run.at)


def _softmax(
    tape: Tape,
    operations: list[Operation],
    makers: dict[int, Operation],
    probabilities: int | None,
) -> Operation | None:
    """The last softmax before the targets are picked, else the last of the largest ones."""
    if probabilities is not None:
        upstream = tape.needed_for([probabilities], _after(makers, probabilities))
        direct = [op for op in upstream if op.name in SOFTMAXES]
        wanted = _count(tape, probabilities)
        for operation in reversed(direct):
            if _count(tape, operation.inputs[0]) == wanted:
                return operation
        # Logits may be picked from directly, and normalised beside it.
        beside = [op for op in operations if op.name in SOFTMAXES]
        for operation in reversed(beside):
            if _count(tape, operation.inputs[0]) == wanted:
                return operation
    autograd = uses_autograd(tape, operations)
    candidates = [
        op for op in operations if op.name in SOFTMAXES and (op.requires_grad[0] or not autograd)
    ]
    # A softmax whose result is multiplied with values again is attention, not a prediction.
    predictions = [op for op in candidates if "log" in op.name]
    return max(predictions, key=lambda op: (_count(tape, op.inputs[0]), op.number), default=None)


def _leads_to(tape: Tape, makers: dict[int, Operation], one: Operation, number: int) -> bool:
    return any(op is one for op in tape.needed_for([number], _after(makers, number)))


def _axis(operation: Operation, tape: Tape) -> int:
    rank = len(tape.layouts[operation.inputs[0]].shape)
    dim = operation.args[1] if len(operation.args) > 1 else -1
    if type(dim) is Ref:
        # Torch's own losses have their classes second.
        dim = min(1, rank - 1)
    dim = dim[0] if isinstance(dim, list | tuple) else dim
    return int(dim) % rank if rank else 0


def _unmoved(tape: Tape, makers: dict[int, Operation], number: int, classes: int) -> int:
    """Go back through views and copies to where the logits were computed."""

    def with_classes(moved: int) -> int | None:
        maker = makers.get(moved)
        source = None if maker is None else _moved_from(tape, maker)
        return source if source is not None and classes in tape.layouts[source].shape else None

    return origin(number, with_classes)


def _only_moved(tape: Tape, makers: dict[int, Operation], number: int) -> int | None:
    maker = makers.get(number)
    return None if maker is None else _moved_from(tape, maker)


def _moved_from(tape: Tape, maker: Operation) -> int | None:
    """The input that an operation only moved or masked; None if it does more."""
    if maker.name in MOVES:
        return maker.inputs[0] if maker.inputs else None
    if maker.name in MASKS and maker.outputs[0] is not None:
        shape = tape.layouts[maker.outputs[0]].shape
        pairs = zip(maker.inputs, maker.requires_grad, strict=True)
        whole = [i for i, needs_grad in pairs if needs_grad and tape.layouts[i].shape == shape]
        return whole[0] if len(whole) == 1 else None
    return None


def _count(tape: Tape, number: int) -> int:
    return math.prod(tape.layouts[number].shape)


def _after(makers: dict[int, Operation], number: int) -> int:
    maker = makers.get(number)
    return 0 if maker is None else maker.number + 1


def recorded_value(tape: Tape, number: int, before: int | None) -> Tensor:
    """The recorded value of a tensor: stored if it is a leaf, else replayed."""
    if number in tape.leaves:
        return tape.value(number)
    return Replay(tape, gradients=False).run([number], before=before)[number]


def token_values(tape: Tape, roles: Roles) -> Tensor | None:
    """The tokens as the program looked them up, a row for each text."""
    if roles.tokens is None or roles.tokens_at is None:
        return None
    found = values_of(tape, Tokens(roles.tokens, roles.tokens_at, roles.tokens_used, 0))
    if found is None or found.dim() == 0:
        return None
    while found.dim() > 2 and found.shape[-1] == 1:
        found = found.squeeze(-1)
    return found.unsqueeze(0) if found.dim() == 1 else found.reshape(-1, found.shape[-1])


def _rows(tape: Tape, parts: list[Roles]) -> int:
    """Rows of logits that these parts take theirs from; several may take them from one tensor."""
    logits = {part.logits: max(part.vocabulary or 1, 1) for part in parts}
    return sum(
        _count(tape, number) // size for number, size in logits.items() if number is not None
    )
