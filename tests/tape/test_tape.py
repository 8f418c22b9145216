"""The tape itself."""

from __future__ import annotations

from dataclasses import replace

import torch
from steps import SmallModel, batch, recorded_step, shifted_loss

from lossleuth.tape.capture.recorder import Recorder


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


def test_a_replaced_operation_is_found_from_then_on() -> None:
    window = recorded_step()
    tape, run = window.tape, window.backwards[0]
    roots = [root for root in run.roots if root is not None]
    before = tape.needed_for(roots, run.at)
    old = before[-1]
    assert tape.makers()[roots[0]] is old
    # It takes nothing any more, and so nothing else is needed.
    new = replace(old, inputs=(), requires_grad=())
    tape.replace_operation(new)
    assert tape.makers()[roots[0]] is new
    assert len(before) > 1 and tape.needed_for(roots, run.at) == [new]


def test_an_answer_is_the_callers_own() -> None:
    window = recorded_step()
    tape, run = window.tape, window.backwards[0]
    first = tape.needed_for([run.roots[0] or 0], run.at)
    expected = list(first)
    first.clear()
    assert tape.needed_for([run.roots[0] or 0], run.at) == expected


def test_what_requires_a_gradient_is_asked_once_while_the_program_rests() -> None:
    tape = recorded_step().tape
    number = max(tape.layouts) + 1
    data = tape.leaves[number] = torch.zeros(3)
    assert not tape.is_settled
    with tape.settled():
        assert tape.is_settled
        data.requires_grad_(True)
        assert number not in tape.parameters
    assert number in tape.parameters


def test_what_asked_for_a_gradient_when_it_was_used_stays_a_parameter() -> None:
    tape = recorded_step().tape
    number, leaf = next(iter(tape.parameters.items()))
    leaf.requires_grad_(False)
    assert number in tape.parameters


def test_an_operation_knows_its_kind_also_when_it_is_copied() -> None:
    operation = recorded_step().tape.operations[0]
    other = replace(operation, kind=torch.ops.aten.add_.Tensor)
    assert other.name == "add_" and other.traits.written == ((0, "self"),)


def test_weights_that_are_used_after_their_update_go_by_the_number_the_loss_knows() -> None:
    """Say, to warm up the state of the next step, which has no backward pass yet."""
    model = SmallModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = Recorder(0)
    recorder.start()
    try:
        loss = shifted_loss(model, batch())
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
        with torch.no_grad():
            shifted_loss(model, batch())
    finally:
        recorder.stop()
    tape = recorder.window.tape
    assert set(tape.parameters) == set(run.after)
    needed = tape.needed_for([i for i in run.roots if i is not None], run.at)
    assert set(tape.parameters) <= {i for op in needed for i in op.inputs}
