"""Find teacher and student: where a loss compares one model's logits with another's.

A teacher is found by what it is used for. Its scores meet those of the model that is trained while
both still have their classes; whatever is done to them before, such as a temperature, a mask or a
slice, is kept apart from what compares them. Names and the kind of divergence do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lossleuth.tape.flow import Uses, downstream, last_ones
from lossleuth.tape.op_schemas import MASKS, MOVES
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.picks import PICKS
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.tape import Operation, Ref, Tape
from lossleuth.tape.window import Backward, Window

# What is done to scores before they are compared: moving them about, and choosing among them.
CARRIES = MOVES | MASKS | {"roll", "flip", "topk", "sort", "gather", "cat"}
CHOICES = frozenset(("topk", "sort", "gather"))
# What gives scores: a layer, or a table of them.
HEADS = frozenset(("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "embedding"))
LOOKUPS = frozenset(("index", "index_select"))
# How the names of operations end after which scores are no scores any more.
NORMALISES = ("softmax", "exp", "logsumexp", "sigmoid", "log", "sum", "mean", "amax")


@dataclass(frozen=True)
class Side:
    """The logits of teacher or student, as they were made and as they are compared."""

    # As a model gave them, or as they came from outside.
    logits: int
    # As they are compared: moved, masked, divided by a temperature.
    scores: int
    # The operation that takes them up.
    at: int
    # What the logits were multiplied with on the way; None where that is trained itself.
    factor: float | None
    # Whether gradients flow back into them.
    requires_grad: bool
    place: str | None


@dataclass(frozen=True)
class Lesson:
    """A student, a teacher, and the operations that compare their logits."""

    run: Backward
    student: Side
    teacher: Side
    classes: int
    # Operations that serve the comparison alone, and no labels.
    own: frozenset[int]
    # Whether the student's scores are also compared with labels, and where the two are added up.
    has_labels: bool
    mixed_at: str | None


def find_lessons(window: Window, roles: Roles | None) -> list[Lesson]:
    """The teacher losses in a backward pass; several if either model may be the teacher."""
    if roles is None or roles.vocabulary is None:
        return []
    tape, run = window.tape, roles.run
    roots = [root for root in run.roots if root is not None]
    operations = tape.needed_for(roots, run.at)
    heads = _heads(window, operations, roles.vocabulary)
    if len(heads) < 2:
        return []
    own = downstream(operations, heads)
    picks = [op for op in operations if _is_pick(op, own)]
    # A hidden layer may be as wide as there are classes: scores are what no other scores are made
    # of.
    heads = last_ones(operations, heads)
    if len(heads) < 2:
        return []
    uses = Uses(operations)
    # Once for all: an operation that joins the positions of a recurrence has as many inputs as
    # there are heads.
    asks = {op.number: dict(zip(op.inputs, op.requires_grad, strict=True)) for op in operations}
    flows = {head: _Flow(tape, uses.following(head), head, asks) for head in heads}
    labelled = {h: None for h in heads if any(flows[h].is_wide(op.inputs[0]) for op in picks)}
    # Two models that both learn from labels and from each other are peers. So are the positions of
    # a recurrence, which may be many.
    teachers = [h for h in heads if h not in labelled or not flows[h].requires_grad]
    found = []
    for student in labelled or heads:
        for teacher in teachers:
            if teacher == student:
                continue
            met = _meetings(operations, flows[student], flows[teacher])
            if not met:
                continue
            lesson = _lesson(run, operations, flows[student], flows[teacher], met, picks)
            if lesson is not None and lesson.student.requires_grad:
                found.append(lesson)
    return found


def _is_pick(op: Operation, own: set[int]) -> bool:
    """Whether the operation picks by labels, not by a model's own choice."""
    if op.name not in PICKS or len(op.inputs) < 2:
        return False
    index = op.args[2 if op.name == "gather" else 1]
    return type(index) is Ref and index.id not in own


class _Flow:
    """What is computed from some logits, and which of it still has one entry for each class."""

    def __init__(
        self,
        tape: Tape,
        operations: list[Operation],
        head: int,
        asks: Mapping[int, Mapping[int, bool]],
    ) -> None:
        """`asks` says of each operation, by its number, which inputs ask for a gradient."""
        self.tape, self.head = tape, head
        self.classes = tape.layouts[head].shape[-1]
        # A few chosen classes are classes still.
        self._sizes = {self.classes}
        self.made: dict[int, bool] = {head: True}
        # What scores that were only carried have been multiplied with so far.
        self.carried: dict[int, float | None] = {head: 1.0}
        self.requires_grad = False
        for op in operations:
            inputs = asks[op.number]
            taken = self.made.keys() & inputs.keys()
            if not taken:
                continue
            wide = any(self.made[i] for i in taken)
            self.requires_grad |= any(inputs[i] for i in taken)
            ordered = taken if len(taken) == 1 else [i for i in op.inputs if i in taken]
            source = next((i for i in ordered if i in self.carried), None)
            for out in {*(o for o in op.outputs if o is not None), *op.written}:
                keeps = wide and self._keeps_classes(op, out, taken)
                self.made[out] = self.made.get(out, False) or keeps
                if source is not None and keeps:
                    factor = _factor(tape, op, source, self.made)
                    if factor is not None:
                        so_far = self.carried[source]
                        self.carried[out] = None if so_far is None else so_far * factor

    def is_wide(self, number: int) -> bool:
        """Whether a tensor is made of these scores and has their classes."""
        return self.made.get(number, False)

    def _keeps_classes(self, op: Operation, out: int, taken: Collection[int]) -> bool:
        layouts = self.tape.layouts
        shape = layouts[out].shape
        if not layouts[out].dtype.is_floating_point or len(shape) < 2:
            return False
        sizes = [math.prod(layouts[i].shape) for i in taken if self.made.get(i)]
        if op.name in CHOICES:
            self._sizes.add(shape[-1])
        # Rows may be left out; a sum over classes leaves fewer numbers as well.
        return shape[-1] in self._sizes and (
            op.name in CARRIES or math.prod(shape) >= max(sizes, default=0)
        )


def _heads(window: Window, operations: list[Operation], classes: int) -> list[int]:
    """Logits as models returned them or as they were loaded, the latest last.

    What a module gives is scores too, until it is normalised: models scale their own.
    """
    tape, trained = window.tape, window.tape.parameters
    found: dict[int, int] = {}
    made: set[int] = set()
    for op in operations:
        for number in op.inputs:
            given = tape.leaves.get(number)
            if given is not None and number not in trained and not given.requires_grad:
                found.setdefault(number, op.number)
        if op.outputs[0] is None:
            continue
        out = op.outputs[0]
        from_scores = any(i in made for i in op.inputs)
        looks_up = op.name in LOOKUPS and op.inputs[0] in tape.leaves
        if op.name in HEADS or looks_up or (from_scores and _adds_bias(tape, op, classes)):
            found[out] = op.number
            made.add(out)
        elif from_scores and not op.name.endswith(NORMALISES):
            made.add(out)
            if out in window.boundaries:
                found[out] = op.number
    kept = []
    for number in sorted(found, key=lambda n: found[n]):
        layout = tape.layouts[number]
        shape = layout.shape
        if layout.dtype.is_floating_point and len(shape) > 1 and shape[-1] == classes:
            kept.append(number)
    return kept


def _adds_bias(tape: Tape, op: Operation, classes: int) -> bool:
    """Whether a bias for each class is added."""
    if op.name not in ("add", "add_"):
        return False
    return any(i in tape.leaves and tape.layouts[i].shape == (classes,) for i in op.inputs)


def _meetings(operations: list[Operation], student: _Flow, teacher: _Flow) -> list[Operation]:
    """Operations that take logits of both; a tensor computed from both may be among them."""
    found = []
    for op in operations:
        ours = {i for i in op.inputs if student.is_wide(i)}
        theirs = {i for i in op.inputs if teacher.is_wide(i)}
        if ours and theirs and len(ours | theirs) > 1:
            found.append(op)
    return found


def _lesson(
    run: Backward,
    operations: list[Operation],
    student: _Flow,
    teacher: _Flow,
    met: list[Operation],
    picks: list[Operation],
) -> Lesson | None:
    leading = _ancestors(operations, met)
    labels = [op for op in picks if student.is_wide(op.inputs[0])]
    # What has met already may go on to be picked from; labels come before that.
    to_labels = _ancestors(operations, labels) - {op.number for op in met}
    own = frozenset(leading - to_labels)
    sides = [_side(operations, flow, leading) for flow in (student, teacher)]
    if sides[0] is None or sides[1] is None:
        return None
    mixed = _mixed(operations, met, labels)
    return Lesson(
        run=run,
        student=sides[0],
        teacher=sides[1],
        classes=student.classes,
        own=own,
        has_labels=bool(labels),
        mixed_at=mixed,
    )


def _mixed(
    operations: list[Operation], met: list[Operation], labels: list[Operation]
) -> str | None:
    """The line that adds the teacher loss to the loss of the labels."""
    lesson, other = {op.number for op in met}, {op.number for op in labels}
    of_lesson: set[int] = set()
    of_labels: set[int] = set()
    for op in operations:
        ours = any(i in of_lesson and i not in of_labels for i in op.inputs)
        theirs = any(i in of_labels and i not in of_lesson for i in op.inputs)
        if ours and theirs:
            return None if op.place is None else str(op.place)
        made = {o for o in op.outputs if o is not None}
        if op.number in lesson or any(i in of_lesson for i in op.inputs):
            of_lesson |= made
        if op.number in other or any(i in of_labels for i in op.inputs):
            of_labels |= made
    return None


def _side(operations: list[Operation], flow: _Flow, leading: set[int]) -> Side | None:
    """The logits as they are when they are first used for more than moving and scaling."""
    for op in operations:
        if op.number not in leading:
            continue
        source = next((i for i in op.inputs if i in flow.carried), None)
        if source is None:
            continue
        goes_on = any(o in flow.carried and o != source for o in op.outputs if o is not None)
        if goes_on or source in op.written:
            continue
        needs_grad = (
            dict(zip(op.inputs, op.requires_grad, strict=True))[source] or op.function is not None
        )
        place = None if op.place is None else str(op.place)
        return Side(
            logits=flow.head,
            scores=source,
            at=op.number,
            factor=flow.carried[source],
            requires_grad=needs_grad,
            place=place,
        )
    return None


def _ancestors(operations: list[Operation], ends: Iterable[Operation]) -> set[int]:
    """Some operations and all that lead to them."""
    needed: set[int] = set()
    found: set[int] = set()
    last = {op.number for op in ends}
    for op in reversed(operations):
        if op.number in last or any(o in needed for o in (*op.outputs, *op.written)):
            found.add(op.number)
            needed.update(op.inputs)
    return found


def _factor(tape: Tape, op: Operation, source: int, made: Mapping[int, bool]) -> float | None:
    """The factor by which an operation scales logits; None if it does more than scale or move."""
    name = op.name.removesuffix("_")
    if op.name in CARRIES or name in CARRIES:
        return 1.0
    if name not in ("mul", "div", "add", "sub") or not op.args:
        return None
    first, other = op.args[0], op.args[1] if len(op.args) > 1 else None
    if type(first) is not Ref:
        return None
    if name in ("add", "sub"):
        # The same number for all classes: a softmax does not change.
        return 1.0 if isinstance(other, int | float) else None
    if first.id != source:
        first, other = other, first
    constant = _constant(tape, other, op.number, made)
    if constant is None or not constant or (name == "div" and op.args[0] != Ref(source)):
        return None
    return constant if name == "mul" else 1 / constant


def _constant(tape: Tape, value: Any, before: int, made: Mapping[int, bool]) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    if type(value) is not Ref or math.prod(tape.layouts[value.id].shape) != 1 or value.id in made:
        return None
    return float(Replay(tape, gradients=False).run([value.id], before=before)[value.id].sum())
