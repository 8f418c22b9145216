"""The tape itself."""

from __future__ import annotations

import torch
from steps import recorded_step


def test_what_a_loss_needs_leads_back_to_parameters_and_tokens_only() -> None:
    window = recorded_step()
    tape, run = window.tape, window.backwards[0]
    needed = tape.needed_for([root for root in run.roots if root is not None], run.at)
    assert 0 < len(needed) < len(tape.operations)
    assert [op.number for op in needed] == sorted(op.number for op in needed)
    made = {i for op in needed for i in op.outputs}
    outside = {i for op in needed for i in op.inputs} - made
    assert outside <= set(tape.leaves)
    assert set(tape.parameters) & outside


def test_values_are_those_of_the_time_of_use() -> None:
    window = recorded_step()
    (update,) = window.updates
    before = {id(p): value for p, value in zip(update.parameters, update.before, strict=True)}
    checked = 0
    for number, leaf in window.tape.leaves.items():
        if id(leaf) in before and number in window.backwards[0].before:
            torch.testing.assert_close(window.tape.value(number), before[id(leaf)], rtol=0, atol=0)
            checked += 1
    assert checked == len(before)


def test_every_tensor_that_is_made_has_a_maker() -> None:
    tape = recorded_step().tape
    makers = tape.makers()
    for number, operation in makers.items():
        assert number in operation.outputs
    assert set(makers) | set(tape.leaves) >= set(tape.layouts)
