"""Private symbols of torch: each is there in this torch, and its fallback works where it is not."""

from __future__ import annotations

import contextlib
import sys
from collections import namedtuple
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from lossleuth import torch_internals as internals
from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.capture.from_first_grad import PatientCapture

Pair = namedtuple("Pair", "first second")


class Mode(internals.TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped base
    """Counts operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped base
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def missing(monkeypatch: pytest.MonkeyPatch, *names: str, to: Any = None) -> None:
    """As if this torch did not have them."""
    for name in names:
        monkeypatch.setattr(internals, name, to)


def test_this_torch_has_them_all() -> None:
    assert list(internals.ABSENT) == []


def test_what_is_not_there_is_listed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internals, "ABSENT", {})
    assert internals.find("torch.no_such_module", "name", 1) == 1
    assert internals.find("torch", "_C.no_such_name", 2) == 2
    assert list(internals.ABSENT) == ["torch.no_such_module.name", "torch._C.no_such_name"]


def test_every_backward_pass_goes_through_the_engines_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, calls = internals.run_backward_function(), list[Any]()
    assert original is not None

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, internals.RUN_BACKWARD, counted)
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    torch.autograd.grad(x.sum(), x)
    torch.autograd.backward([x.sum()])
    assert len(calls) == 3
    monkeypatch.delattr(torch.autograd, internals.RUN_BACKWARD)
    assert internals.run_backward_function() is None


def test_a_node_knows_its_custom_function() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 2

    x = torch.ones(2, requires_grad=True)
    assert internals.forward_class(Double.apply(x).grad_fn) is Double  # type: ignore[no-untyped-call]  # untyped
    assert internals.forward_class(object()) is None


def test_a_node_shows_the_result_that_it_keeps() -> None:
    made = torch.ones(2, requires_grad=True).exp()
    assert any(saved is not None for saved in internals.saved_results(made.grad_fn))
    made.sum().backward()
    assert [s for s in internals.saved_results(made.grad_fn) if s is not None] == []
    assert [s for s in internals.saved_results(object()) if s is not None] == []


def test_hooks_of_a_module_are_called_at_the_known_function() -> None:
    module = nn.Linear(2, 2)
    module.register_full_backward_hook(lambda *_: None)
    result = module(torch.ones(1, 2, requires_grad=True))
    assert internals.forward_class(result.grad_fn) is internals.ModuleHookFunction
    assert len(internals.module_gradient_hooks(module)) == 1
    module.register_full_backward_pre_hook(lambda *_: None)
    assert len(internals.module_gradient_hooks(module)) == 2
    assert internals.module_gradient_hooks(object()) == []  # type: ignore[arg-type]  # has none


def test_an_item_is_read_past_a_replaced_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "item", None)
    assert internals.item(torch.tensor(2.5)) == 2.5


def test_versions_count_writes_where_torch_does() -> None:
    x = torch.zeros(2)
    before = internals.version_of(x)
    x.add_(1)
    assert internals.version_of(x) == before + 1
    assert internals.version_of(object()) == 0  # type: ignore[arg-type]  # counts nothing


def test_hooks_of_a_tensor_are_found() -> None:
    x = torch.ones(2, requires_grad=True)
    assert internals.gradient_hooks(x) == []
    x.register_hook(print)  # type: ignore[no-untyped-call]  # untyped
    assert internals.gradient_hooks(x) == [print]
    assert internals.gradient_hooks(object()) == []  # type: ignore[arg-type]  # has none


def test_tensors_in_one_memory_share_a_key() -> None:
    x, y = torch.zeros(4), torch.zeros(4)
    assert internals.memory_key(x) == internals.memory_key(x[1:]) != internals.memory_key(y)

    class Old:
        """A tensor of a torch whose storages have no address of their own."""

        def untyped_storage(self) -> Any:
            return type("Storage", (), {"data_ptr": lambda _: 17})()

    assert internals.memory_key(Old()) == 17  # type: ignore[arg-type]  # only this is asked


def test_a_tensor_of_zeros_without_memory_is_known() -> None:
    assert internals.is_all_zero_by_type(torch._efficientzerotensor(3))
    assert not internals.is_all_zero_by_type(torch.zeros(3))
    assert not internals.is_all_zero_by_type(object())  # type: ignore[arg-type]  # cannot say


@pytest.mark.parametrize("there", [True, False])
def test_tensors_are_scaled_at_once_or_in_turn(
    monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    if not there:
        missing(monkeypatch, "_scale_at_once")
    tensors = [torch.ones(2), torch.full((1,), 3.0)]
    internals.scale_all(tensors, 0.5)
    assert [t.tolist() for t in tensors] == [[0.5, 0.5], [1.5]]


def test_an_operation_says_what_it_is() -> None:
    operation = torch.ops.aten.add.Tensor
    assert isinstance(operation, internals.OpOverload)
    assert internals.schema_of(operation).name == "aten::add"
    assert internals.packet_of(operation) is torch.ops.aten.add


def test_without_dispatch_modes_recording_is_refused_and_says_why() -> None:
    with pytest.raises(NotImplementedError, match="no step is recorded"):
        internals._NoDispatchMode().__enter__()


def test_a_mode_is_left_below_another() -> None:
    lower, upper = Mode(), Mode()
    with contextlib.ExitStack() as stack:
        lower.__enter__()  # type: ignore[no-untyped-call]  # untyped base
        stack.enter_context(upper)
        assert internals.dispatch_modes()[-2:] == [lower, upper]
        internals.leave_mode(lower)
        assert internals.dispatch_modes()[-1] is upper
        torch.ones(2) + 1
        assert upper.calls and not lower.calls
        upper.calls = 0
        with internals.without_modes():
            torch.ones(2) + 1
        assert not upper.calls


def test_the_innermost_mode_is_left_where_the_stack_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, mode = internals.dispatch_modes(), Mode()
    mode.__enter__()  # type: ignore[no-untyped-call]  # untyped base
    missing(monkeypatch, "_pop_mode", "_push_mode")
    internals.leave_mode(mode)
    assert internals.dispatch_modes() == before


def test_wrappers_of_transforms_are_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def see(x: Tensor) -> Tensor:
        found.append((internals.is_wrapped(x), internals.innermost_transform() is not None))
        found.append(internals.is_wrapped(internals.unwrapped(x)))
        with internals.outside_transforms():
            found.append(internals.innermost_transform())
        missing(monkeypatch, "_unwrapped")
        found.append(internals.unwrapped(x) is x)
        return x

    torch.func.vmap(see)(torch.ones(3, 2))
    assert found == [(True, True), False, None, True]
    assert internals.innermost_transform() is None


@pytest.mark.parametrize("there", [True, False])
def test_values_in_nested_things_are_replaced_and_listed(
    monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    if not there:
        missing(monkeypatch, "_map_only", "_leaves")
    tree = {"a": [1, "x"], "b": (2, Pair(3, None))}
    doubled = internals.map_only(int, lambda n: n * 2, tree)
    assert doubled == {"a": [2, "x"], "b": (4, Pair(6, None))}
    assert isinstance(doubled["b"][1], Pair)
    assert internals.leaves_of(tree) == [1, "x", 2, 3, None]


def test_batches_are_handed_out_by_the_known_class() -> None:
    loader = torch.utils.data.DataLoader([1, 2])  # type: ignore[arg-type,var-annotated]  # a list will do
    assert isinstance(iter(loader), internals.LoaderIterator)


def test_code_is_marked_where_the_compiler_can_be_spoken_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function() -> None: ...

    assert internals.mark_code(function.__code__, with_calls=True)
    missing(monkeypatch, "_strategy")
    assert not internals.mark_code(function.__code__, with_calls=True)


def test_a_dispatch_function_is_called_without_what_torch_puts_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = internals.plain_dispatch(Mode)
    assert own.__code__.co_filename == __file__
    for kind in (Capture, PatientCapture):
        written = kind.__torch_dispatch__
        assert written.__code__.co_filename == sys.modules[kind.__module__].__file__
    # Where the compiler cannot be kept out in another way, it stays as torch has it.
    missing(monkeypatch, "_strategy")
    assert internals.plain_dispatch(Mode) is vars(Mode)["__torch_dispatch__"]


def test_functions_are_marked_as_torch_marks_them() -> None:
    def ours() -> int:
        return 1

    internals.mark_disabled(ours)
    internals.mark_constant(ours)
    theirs = torch.compiler.disable(lambda: 1)
    assert ours._torchdynamo_disable is theirs._torchdynamo_disable  # type: ignore[attr-defined]  # set above
    theirs = torch.compiler.assume_constant_result(lambda: 1)
    assert ours._dynamo_marked_constant is theirs._dynamo_marked_constant  # type: ignore[attr-defined]  # set above


def test_tensors_without_values_are_told_from_real_ones() -> None:
    with FakeTensorMode():
        fake = torch.ones(2)
    assert internals.is_traced(fake)
    assert not internals.is_traced(torch.ones(2))
    assert not internals.is_traced(nn.Parameter(torch.ones(2)))
    assert not internals.is_traced(None)


def test_the_compilers_switches_are_there_once_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    stances = internals.loaded_stances()
    assert callable(getattr(stances, internals.SET_STANCE))
    assert internals.loaded_compiler_settings().disable in (True, False)
    monkeypatch.delattr(stances, internals.SET_STANCE)
    assert internals.loaded_stances() is None


def test_compiled_functions_are_called_from_the_known_file() -> None:
    from pathlib import Path

    folder = Path(torch.__file__).parents[1]
    assert all((folder / file).exists() for file in internals.COMPILED_FILES)


def test_torchs_library_hands_out_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    assert internals.LIBRARY_FILE is not None
    assert internals.handle_of(torch.ones(2)) is not None
    missing(monkeypatch, "_make_handles")
    with pytest.raises(LookupError):
        internals.handle_of(torch.ones(2))
