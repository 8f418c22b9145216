"""What the tensors of a step mean, found from how they are used and never from names.

Targets are what a loss picks its probabilities by; logits are what those probabilities were made
of; tokens are the whole numbers that were looked up on the way to the logits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import is_random
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.features import Features, Fused, find_features, find_fused
from lossleuth.tape.tape import Operation, Ref, Tape
from lossleuth.tape.walk_back import origin
from lossleuth.tape.window import Backward, Window

# Operations that move numbers about without changing them.
_SEEN_DIFFERENTLY = (
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "flatten", "contiguous"),
    *("transpose", "t", "permute", "unsqueeze", "squeeze", "expand"),
)
_PARTS = (
    *("slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unbind"),
    *("index", "index_select", "masked_select", "constant_pad_nd"),
)
_COPIES = ("clone", "copy_", "_to_copy", "detach", "alias", "lift_fresh")
MOVES = frozenset((*_SEEN_DIFFERENTLY, *_PARTS, *_COPIES))
MASKS = frozenset(("where", "masked_fill"))
PICKS = frozenset(("nll_loss_forward", "nll_loss2d_forward", "gather"))
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


def find_roles(window: Window) -> Roles | None:
    """The roles in the backward pass with most operations; None if there was none."""
    return window.once("roles", lambda: _find_roles(window))


def _find_roles(window: Window) -> Roles | None:
    runs = [run for run in window.backwards if all(root is not None for root in run.roots)]
    if not runs:
        return None
    tape = window.tape
    return roles_of(tape, max(runs, key=lambda r: len(_leading_to(tape, r))))


def roles_of(tape: Tape, run: Backward) -> Roles:
    """The roles in what one backward pass differentiates."""
    operations = _leading_to(tape, run)
    makers = tape.makers()
    targets, ignored, probabilities = _picked(tape, operations)
    softmax = _softmax(tape, operations, makers, probabilities)
    fused = find_fused(tape, makers, run.at, MOVES)
    if fused is not None and (softmax is None or targets is None):
        return _fused_roles(tape, run, makers, fused)
    if softmax is None:
        return Roles(
            run=run,
            logits=None,
            class_axis=-1,
            vocabulary=None,
            scores=None,
            scores_at=None,
            targets=targets,
            ignored=ignored,
            tokens=None,
            tokens_at=None,
        )
    scores, scores_at, axis = softmax.inputs[0], softmax.number, _axis(softmax, tape)
    if probabilities is not None and not _leads_to(tape, makers, softmax, probabilities):
        # Picked from as they are, and normalised beside, perhaps in a way that changes them.
        pick = _pick(operations, probabilities, targets)
        scores, scores_at, axis = probabilities, pick.number, _axis(pick, tape)
    logits = _unmoved(tape, makers, scores, tape.layouts[scores].shape[axis])
    vocabulary = tape.layouts[scores].shape[axis]
    features = find_features(tape, makers, logits, MOVES)
    rows = [_count(tape, logits) // max(vocabulary, 1)]
    if features is not None:
        shape = tape.layouts[features.number].shape
        rows.append(_count(tape, features.number) // max(shape[-1] if shape else 1, 1))
    lookup = _tokens(tape, logits, makers, rows, vocabulary)
    tokens, tokens_at, count = (None, None, 0) if lookup is None else lookup
    # With one row of logits for each token, features are not needed.
    features = features if count != rows[0] and count == rows[-1] else None
    return Roles(
        run=run,
        logits=logits,
        class_axis=axis,
        vocabulary=vocabulary,
        scores=scores,
        scores_at=scores_at,
        targets=targets,
        ignored=ignored,
        tokens=tokens,
        tokens_at=tokens_at,
        features=features,
    )


def _fused_roles(tape: Tape, run: Backward, makers: dict[int, Operation], fused: Fused) -> Roles:
    """Roles where logits exist only inside a function, a few at a time."""
    shape = tape.layouts[fused.features.number].shape
    rows = [_count(tape, fused.features.number) // max(shape[-1], 1)]
    lookup = _tokens(tape, fused.features.number, makers, rows, fused.classes)
    tokens, at, _ = (None, None, 0) if lookup is None else lookup
    return Roles(
        run=run,
        logits=None,
        class_axis=-1,
        vocabulary=fused.classes,
        scores=None,
        scores_at=None,
        targets=fused.targets,
        ignored=None,
        tokens=tokens,
        tokens_at=at,
        features=fused.features,
    )


def _uses_autograd(tape: Tape, operations: list[Operation]) -> bool:
    """Whether anything other than a parameter itself requires a gradient."""
    return any(
        needs_grad and tape.groups[i] not in tape.leaves
        for operation in operations
        for i, needs_grad in zip(operation.inputs, operation.requires_grad, strict=True)
    )


def _leading_to(tape: Tape, run: Backward) -> list[Operation]:
    return tape.needed_for([root for root in run.roots if root is not None], run.at)


def _picked(tape: Tape, operations: list[Operation]) -> tuple[int | None, int | None, int | None]:
    """Targets, the ignored target, and what they are picked from; the largest of several."""
    best: tuple[int, int, int | None, int] | None = None
    autograd = _uses_autograd(tape, operations)
    for operation in operations:
        if operation.name not in PICKS or len(operation.inputs) < 2:
            continue
        source, index = operation.args[0], operation.args[2 if operation.name == "gather" else 1]
        if type(source) is not Ref or type(index) is not Ref:
            continue
        whole = not tape.layouts[index.id].dtype.is_floating_point
        classes = max(tape.layouts[source.id].shape, default=0)
        needs_grad = (
            operation.function is not None
            or operation.requires_grad[operation.inputs.index(source.id)]
        )
        # Where nothing at all requires a gradient, gradients are made by hand.
        needs_grad = needs_grad or not autograd
        if not whole or classes < 2 or not needs_grad:
            continue
        ignored = operation.args[4] if operation.name.startswith("nll") else None
        size = _count(tape, source.id)
        if best is None or size >= best[3]:
            best = (index.id, source.id, ignored, size)
    return (None, None, None) if best is None else (best[0], best[2], best[1])


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
    autograd = _uses_autograd(tape, operations)
    candidates = [
        op for op in operations if op.name in SOFTMAXES and (op.requires_grad[0] or not autograd)
    ]
    # A softmax whose result is multiplied with values again is attention, not a prediction.
    predictions = [op for op in candidates if "log" in op.name]
    return max(predictions, key=lambda op: (_count(tape, op.inputs[0]), op.number), default=None)


def _leads_to(tape: Tape, makers: dict[int, Operation], one: Operation, number: int) -> bool:
    return any(op is one for op in tape.needed_for([number], _after(makers, number)))


def _pick(operations: list[Operation], source: int, targets: int | None) -> Operation:
    both = {source, targets}
    return next(op for op in operations if op.name in PICKS and both <= set(op.inputs))


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


def _tokens(
    tape: Tape, logits: int, makers: dict[int, Operation], rows: list[int], vocabulary: int
) -> tuple[int, int, int] | None:
    """The embedding lookup with one token for each row of logits, else the largest, latest one.

    An encoder's tokens are looked up before the decoder's, whose rows are the logits'.
    """
    found: tuple[tuple[int, bool, int], tuple[int, int, int]] | None = None
    for operation in tape.needed_for([logits], _after(makers, logits)):
        index = _lookup(tape, operation)
        if index is None or _counts_up(tape, index) or _is_computed(tape, index, operation.number):
            continue
        size = _count(tape, index)
        # Rows of logits first, then rows of features, then the largest.
        fits = len(rows) - rows.index(size) if size in rows else 0
        # Segment ids are looked up too, in a table without a row for each class.
        table = tape.layouts[operation.inputs[0]].shape[0] == vocabulary
        if found is None or (fits, table, size) >= found[0]:
            found = (fits, table, size), (index, operation.number, size)
    return None if found is None else found[1]


def tokens_of(tape: Tape, scores: int, vocabulary: int) -> Tensor | None:
    """The tokens behind some logits, if there is one for each row."""
    rows = _count(tape, scores) // max(vocabulary, 1)
    found = _tokens(tape, scores, tape.makers(), [rows], vocabulary)
    if found is None or found[2] != rows:
        return None
    return Replay(tape, gradients=False).run([found[0]], before=found[1])[found[0]].detach().clone()


def _lookup(tape: Tape, operation: Operation) -> int | None:
    """The indices of an embedding lookup; None if it is none."""
    if operation.name == "embedding":
        return operation.inputs[1]
    if operation.name in ("index", "index_select") and len(operation.inputs) == 2:
        table, index = operation.inputs
        layout, indices = tape.layouts[table], tape.layouts[index]
        whole = indices.dtype in (torch.int64, torch.int32)
        trained = tape.parameters
        known = table in trained or (not trained and table in tape.leaves)
        if layout.dtype.is_floating_point and whole and known:
            return index
    return None


def _counts_up(tape: Tape, number: int) -> bool:
    """Whether integers come from counting alone, as positions do."""
    operations = tape.needed_for([number])
    made = [op for op in operations if number in op.outputs]
    if not made:
        return _is_consecutive(tape.value(number)) if number in tape.leaves else False
    leaves = {i for op in operations for i in op.inputs if i in tape.leaves}
    if any(is_random(op.kind) for op in operations):
        return False
    if any(op.name in ("arange", "cumsum") for op in operations):
        whole = [i for i in leaves if not tape.layouts[i].dtype.is_floating_point]
        return not any(_count(tape, i) > 1 and not _is_mask(tape, i) for i in whole)
    return bool(leaves) and all(_is_consecutive(tape.value(i)) for i in leaves)


def _is_computed(tape: Tape, number: int, before: int) -> bool:
    """Whether the model computed these numbers itself, so that they are no input."""
    parameters = tape.parameters
    operations = tape.needed_for([number], before)
    return any(i in parameters for operation in operations for i in operation.inputs)


def _is_mask(tape: Tape, number: int) -> bool:
    value = tape.value(number)
    return bool(((value == 0) | (value == 1)).all())


def _is_consecutive(tensor: Tensor) -> bool:
    rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.reshape(1, 1)
    if rows.shape[1] < 2:
        return False
    # Mostly: positions start again in packed documents. In every row: one row of tokens may count
    # up by chance.
    return bool(((rows[:, 1:] - rows[:, :-1] == 1).double().mean(1) > 0.5).all())


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


def tokens_behind(tape: Tape, logits: int, classes: int) -> tuple[int, int] | None:
    """The tokens that some logits were made of, and the operation that looks them up."""
    rows = [_count(tape, logits) // max(classes, 1)]
    found = _tokens(tape, logits, tape.makers(), rows, classes)
    return None if found is None else found[:2]


def token_values(tape: Tape, roles: Roles) -> Tensor | None:
    """The tokens as the lookup saw them."""
    if roles.tokens is None:
        return None
    replay = Replay(tape, gradients=False)
    try:
        return replay.run([roles.tokens], before=roles.tokens_at)[roles.tokens].detach().clone()
    except CannotReplay:
        return None
