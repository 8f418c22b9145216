"""Replay the operations of a tape: in float64, with other leaves, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from lossleuth.tape.deadline import check
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.liveness import Plan, plan_at, plan_for
from lossleuth.tape.replay.one_pass import FLOATS, Pass
from lossleuth.tape.replay.one_pass import Cuts as Cuts
from lossleuth.tape.replay.one_pass import Each as Each
from lossleuth.tape.replay.opacity import blocked_by
from lossleuth.tape.tape import Operation, Tape

# Replays without gradients whose results are kept while probes run, and numbers in one of them (128
# MB in float64). Picked by hand.
MAX_VALUES_KEPT, MAX_NUMBERS_KEPT = 8, 1 << 24


@dataclass
class Replay:
    """How to replay operations.

    With `float64`, all floating-point tensors are float64; else they keep the recorded types.
    With `replay_choices`, choices such as `topk` and `argmax` are those of the recording.
    """

    tape: Tape
    float64: bool = True
    cuts: Cuts = Cuts.KEPT
    gradients: bool = True
    replay_choices: bool = True
    # Without `dropout`, nothing is dropped, as in evaluation mode.
    dropout: bool = True
    # Operations that do not support float64 and ran in the recorded types.
    narrow: list[Operation] = field(default_factory=list)
    # Whether the replay met one of the program's cuts.
    has_cuts: bool = False

    def run(
        self,
        wanted: Sequence[int],
        *,
        before: int | None = None,
        since: int = 0,
        leaves: Mapping[int, Tensor] | None = None,
        inputs: Mapping[int, Callable[[int, Tensor], Tensor]] | None = None,
        kept: Collection[int] = (),
        each: Each | None = None,
    ) -> dict[int, Tensor]:
        """Replay what the tensors `wanted`, and `kept` on the way, depend on, and return them.

        `leaves` gives values: of leaves, or of tensors made before `since`. `inputs` changes a
        tensor where an operation uses it: a function of the operation's number and the tensor.
        `each` is called after every operation: its arguments, its result, and a way to the result
        in the recorded types.
        """
        plan = plan_for(self.tape, {*wanted, *kept}, before, since)
        if inputs and (reason := blocked_by(self.tape, inputs, plan.operations)) is not None:
            raise CannotReplay(reason)
        as_recorded = not (self.gradients or since or leaves or inputs or each)
        if as_recorded and (known := self._known(plan)) is not None:
            return known
        with neutral(float64=self.float64, gradients=self.gradients):
            pass_ = Pass(self, leaves or {}, inputs or {}, plan, each)
            for operation in plan.operations:
                check()
                pass_.attempt(operation)
            pass_.catch_up(before)
            made = {i: pass_.value_of(i) for i in {*wanted, *kept} if pass_.has(i)}
        if as_recorded:
            self._keep(plan, made)
        return made

    def at_points(
        self,
        points: Mapping[int, Collection[int]],
        look: Callable[[int, dict[int, Tensor]], None],
    ) -> None:
        """Replay once, and look at tensors on the way: before which operations, at which.

        `look` is called with the number of the operation and the values; they hold until it
        returns.
        """
        plan = plan_at(self.tape, points)
        waiting = sorted(points, reverse=True)
        with neutral(float64=self.float64, gradients=self.gradients):
            pass_ = Pass(self, {}, {}, plan, None)

            def pause(before: int | None) -> None:
                while waiting and (before is None or waiting[-1] <= before):
                    at = waiting.pop()
                    pass_.catch_up(at)
                    look(at, {i: pass_.value_of(i) for i in points[at] if pass_.has(i)})
                    pass_.free(plan.endings_at_points.get(at, ()))

            for operation in plan.operations:
                check()
                pause(operation.number)
                pass_.attempt(operation)
            pause(None)

    def _known(self, plan: Plan) -> dict[int, Tensor] | None:
        """What a replay of the same operations has given before."""
        found: tuple[dict[int, Tensor], list[Operation]] | None
        found = self.tape.values.get(self._key(plan)) if self.tape.is_settled else None
        if found is None:
            return None
        self.narrow.extend(found[1])
        return {number: value.detach() for number, value in found[0].items()}

    def _keep(self, plan: Plan, made: dict[int, Tensor]) -> None:
        size = sum(value.numel() for value in made.values())
        if self.tape.is_settled and size <= MAX_NUMBERS_KEPT:
            values = self.tape.values
            while len(values) >= MAX_VALUES_KEPT:
                del values[next(iter(values))]
            # A copy: what is returned belongs to the caller.
            values[self._key(plan)] = dict(made), list(self.narrow)

    def _key(self, plan: Plan) -> tuple[Any, ...]:
        # What does not occur among the operations makes no difference.
        choices = self.replay_choices or not plan.has_choices
        dropout = self.dropout or not plan.has_random
        # What was done outside torch after the last operation does.
        tape, (_, before) = self.tape, plan.span
        filled = (i for i, at in tape.opaque.items() if before is None or at <= before)
        made = (i for i, again in tape.outside.items() if before is None or again.at <= before)
        outside = frozenset(filled), frozenset(made)
        return plan.wanted, plan.last, outside, self.float64, choices, dropout

    def leaf(self, tensor: Tensor) -> Tensor:
        """The tensor as a leaf of the replay's own graph."""
        found = self.widened(tensor.detach())
        # Tensors from inference mode cannot be differentiated.
        return (found.clone() if found.is_inference() else found).requires_grad_()

    def widened(self, tensor: Tensor) -> Tensor:
        """The tensor in the type that this replay uses."""
        return tensor.double() if self.float64 and tensor.dtype in FLOATS else tensor
