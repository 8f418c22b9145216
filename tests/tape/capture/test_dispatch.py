"""Recording operations."""

from __future__ import annotations

import gc

import torch

from lossleuth.tape.capture.dispatch import Capture


def captured() -> Capture:
    capture = Capture()
    capture.__enter__()
    return capture


def finish(capture: Capture) -> None:
    capture.__exit__(None, None, None)


def test_operations_are_recorded_with_their_line() -> None:
    x = torch.ones(3, requires_grad=True)
    capture = captured()
    try:
        y = x.sin() * 2
    finally:
        finish(capture)
    names = [op.name for op in capture.tape.operations]
    assert names == ["sin", "mul"]
    place = capture.tape.operations[0].place
    assert place is not None
    assert place.file == __file__
    assert capture.known(y) == capture.tape.operations[1].outputs[0]
    assert capture.tape.parameters == {capture.known(x): x}


def test_a_leaf_that_is_overwritten_keeps_its_value() -> None:
    x = torch.ones(3)
    capture = captured()
    try:
        y = x * 2
        x.add_(5)
        z = x * 2
    finally:
        finish(capture)
    number = capture.known(x)
    assert number is not None
    assert capture.tape.value(number).tolist() == [1, 1, 1]
    assert (y[0], z[0]) == (2, 12)


def test_what_a_pause_overwrites_is_met_as_something_new() -> None:
    x = torch.ones(3, requires_grad=True)
    capture = captured()
    try:
        x.sum()
        first = capture.known(x)
        capture.pause()
        with torch.no_grad():
            x.add_(1)
        capture.resume()
        x.sum()
        second = capture.known(x)
    finally:
        finish(capture)
    assert first is not None
    assert second is not None
    assert first != second
    assert capture.tape.value(first).tolist() == [1, 1, 1]
    assert capture.tape.value(second).tolist() == [2, 2, 2]
    assert capture.tape.parameters == {second: x}


def test_other_memory_for_the_same_tensor_is_noticed() -> None:
    x = torch.ones(3, requires_grad=True)
    capture = captured()
    try:
        x.sum()
        first = capture.known(x)
        x.data = torch.full((3,), 7.0)
        x.sum()
        second = capture.known(x)
    finally:
        finish(capture)
    assert first is not None
    assert second is not None
    assert capture.tape.value(first).tolist() == [1, 1, 1]
    assert capture.tape.value(second).tolist() == [7, 7, 7]


def test_a_second_name_for_the_same_memory_is_a_view_of_it() -> None:
    x = torch.ones(3, requires_grad=True)
    capture = captured()
    try:
        y = x * 2
        y.data.mul_(5)
        y.sum()
    finally:
        finish(capture)
    tape = capture.tape
    assert [op.name for op in tape.operations] == ["mul", "detach", "mul_", "sum"]
    renamed, written = tape.operations[1], tape.operations[2]
    assert tape.groups[renamed.inputs[0]] == tape.groups[renamed.outputs[0] or 0]
    assert written.requires_grad == (False,)


def test_numbers_are_not_given_twice_though_ids_are_used_again() -> None:
    capture = captured()
    try:
        for value in range(200):
            t = torch.full((2,), float(value))
            _ = t + 1
            del t, _
            if value % 50 == 0:
                gc.collect()
    finally:
        finish(capture)
    made = [o for op in capture.tape.operations for o in op.outputs]
    assert len(set(made)) == len(made) == 400


def test_random_numbers_choices_and_reads_are_kept() -> None:
    torch.manual_seed(0)
    capture = captured()
    try:
        noise = torch.rand(4)
        largest = noise.argmax()
        value = largest.item()
    finally:
        finish(capture)
    kept = {op.name: op.recorded_results for op in capture.tape.operations}
    assert kept["rand"] is not None
    assert torch.equal(kept["rand"][0], noise)
    assert kept["argmax"] is not None
    assert kept["argmax"][0].item() == value
    (read,) = capture.tape.reads
    assert (read.value, read.by_user) == (value, True)


def test_memory_that_torch_did_not_fill_is_noticed() -> None:
    capture = captured()
    try:
        out = torch.empty(3)
        out.numpy()[...] = 4
        out.view(3) * 2
    finally:
        finish(capture)
    (number,) = capture.tape.opaque
    assert capture.tape.snapshots[number].tolist() == [4, 4, 4]


def test_code_of_ours_is_not_recorded() -> None:
    capture = captured()
    try:
        with capture.own.work():
            torch.ones(3).sin()
    finally:
        finish(capture)
    assert capture.tape.operations == []


def test_in_inference_mode_operations_are_taken_apart_and_give_the_same() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5))
    x, targets = torch.randn(4, 6), torch.tensor([0, 1, 2, 4])

    def loss() -> float:
        with torch.inference_mode():
            return torch.nn.functional.cross_entropy(model(x), targets).item()

    bare = loss()
    capture = captured()
    try:
        assert loss() == bare
    finally:
        finish(capture)
    names = [op.name for op in capture.tape.operations]
    assert {"addmm", "native_layer_norm", "nll_loss_forward"} <= set(names)
    assert [read.value for read in capture.tape.reads] == [bare]
