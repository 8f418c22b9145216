"""What is computed from what."""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.flow import Uses, downstream, last_ones
from lossleuth.tape.tape import Operation


def taped() -> tuple[list[Operation], dict[str, int]]:
    """Two heads on one hidden layer, one of them changed in place by what was made of itself."""
    capture = Capture()
    with capture:
        made: dict[str, Tensor] = {"input": torch.ones(2, 3)}
        made["hidden"] = made["input"] * 2
        made["one"], made["other"] = made["hidden"] + 1, made["hidden"] * 3
        made["largest"] = made["one"].amax(-1, keepdim=True)
        made["one"].sub_(made["largest"])
        made["loss"] = (made["one"] * made["other"]).sum()
        numbers = {name: capture.number_of(tensor) for name, tensor in made.items()}
    return capture.tape.operations, numbers


def test_the_last_ones_lead_to_no_other() -> None:
    operations, number = taped()
    asked = [number["hidden"], number["one"], number["other"]]
    assert last_ones(operations, asked) == [number["one"], number["other"]]
    assert last_ones(operations, [*asked, number["loss"]]) == [number["loss"]]
    assert last_ones(operations, [number["hidden"]]) == [number["hidden"]]


def test_it_is_as_if_each_had_been_followed_by_itself() -> None:
    operations, number = taped()
    for asked in ([*number.values()], [*number.values()][::2], [*number.values()][1::2]):
        made = {i: downstream(operations, [i]) for i in asked}
        by_itself = [i for i in asked if not any(o != i and o in made[i] for o in asked)]
        assert last_ones(operations, asked) == by_itself


def test_downstream_of_several_is_what_is_downstream_of_any() -> None:
    operations, number = taped()
    each = [downstream(operations, [number[name]]) for name in ("largest", "other")]
    both = downstream(operations, [number["largest"], number["other"]])
    assert both == each[0] | each[1]
    assert number["loss"] in both and number["hidden"] not in both
    # Written in place.
    assert number["one"] in each[0] and number["one"] not in each[1]


def test_uses_that_follow_are_those_of_a_walk_over_all_operations() -> None:
    operations, number = taped()
    uses = Uses(operations)
    for source in number.values():
        known, expected = {source}, []
        for operation in operations:
            if any(i in known for i in operation.inputs):
                expected.append(operation.number)
                known |= {*(o for o in operation.outputs if o is not None), *operation.written}
        assert [op.number for op in uses.following(source)] == expected
    assert len(uses.following(number["largest"])) == 3
