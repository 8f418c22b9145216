"""Every private symbol of torch that we use, each with what is done where a torch has none.

Torch may rename them in any release. Nothing else of ours names one (`tests/test_contract.py`), so
that this file is what a new torch is checked against. `ABSENT` lists what the present one lacks.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

# Names of the symbols that the present torch does not have.
ABSENT: dict[str, None] = {}


def find(module: str, path: str, otherwise: Any = None) -> Any:
    """What a path of names leads to from a module of torch, or `otherwise` where it breaks off.

    >>> find("torch.autograd", "backward") is torch.autograd.backward
    True
    >>> find("torch.autograd", "no.such.name", 7), ABSENT.popitem()
    (7, ('torch.autograd.no.such.name', None))
    """
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        ABSENT[f"{module}.{path}"] = None
        return otherwise
    return found


# autograd

# The one function of `torch.autograd` that every backward pass goes through.
RUN_BACKWARD = "_engine_run_backward"


def run_backward_function() -> Callable[..., Any] | None:
    """What stands for the engine now, ours where it is watched; None where there is no such one."""
    found: Callable[..., Any] | None = getattr(torch.autograd, RUN_BACKWARD, None)
    return found


def forward_class(node: Any) -> Any:
    """The custom function that a node of the graph belongs to, or None."""
    return getattr(node, "_forward_cls", None)


def saved_results(node: Any) -> Iterator[Any]:
    """What a node of the graph has kept of its own result, as far as it has not been freed."""
    for name in ("_saved_result", "_saved_output", "_saved_out"):
        # Freed already, or changed: torch raises an error of its own later.
        with contextlib.suppress(RuntimeError):
            yield getattr(node, name, None)


# Torch calls the hooks of a module at this function; no function is it where there is none.
ModuleHookFunction: Any = find("torch.nn.modules._functions", "BackwardHookFunction", object())


# tensors and modules

# Reads a number past the method that a watch replaces.
item: Callable[[Tensor], Any] = find("torch", "_C.TensorBase.item", Tensor.item)


def version_of(tensor: Tensor) -> int:
    """How often a tensor was written to; always the same where torch does not count."""
    return int(getattr(tensor, "_version", 0))


def gradient_hooks(tensor: Tensor) -> list[Any]:
    """The functions that are registered for a tensor's gradient."""
    hooks = getattr(tensor, "_backward_hooks", None)
    return list(hooks.values()) if hooks else []


def module_gradient_hooks(module: nn.Module) -> list[Any]:
    """The functions that are registered for the gradients of a module."""
    found = (getattr(module, name, {}) for name in ("_backward_hooks", "_backward_pre_hooks"))
    return [hook for hooks in found for hook in hooks.values()]


def memory_key(tensor: Tensor) -> int:
    """Something that tensors in the same memory share, while one of them is there."""
    storage = tensor.untyped_storage()
    key = getattr(storage, "_cdata", None)
    return int(storage.data_ptr() if key is None else key)


def is_all_zero_by_type(tensor: Tensor) -> bool:
    """Whether a tensor has a size and no memory, since all of it is 0."""
    asks = getattr(tensor, "_is_zerotensor", None)
    return False if asks is None else bool(asks())


_scale_at_once = find("torch", "_foreach_mul_")


def scale_all(tensors: list[Tensor], factor: float) -> None:
    """Multiply every tensor by a number, in place and at once where torch can."""
    if _scale_at_once is None:
        for tensor in tensors:
            tensor.mul_(factor)
    else:
        _scale_at_once(tensors, factor)


# operations

if TYPE_CHECKING:
    from torch._ops import OpOverload as OpOverload
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
else:
    OpOverload = find("torch._ops", "OpOverload", type(torch.ops.aten.add.Tensor))

    class _NoDispatchMode:
        """Stands where torch lets nobody see its operations: what is to be recorded is not."""

        def __enter__(self) -> Any:
            raise NotImplementedError("this torch has no TorchDispatchMode: no step is recorded")

    TorchDispatchMode = find("torch.utils._python_dispatch", "TorchDispatchMode", _NoDispatchMode)


def plain_dispatch(mode: Any) -> Any:
    """The dispatch function of a mode as it was written.

    Torch puts another around it that keeps its compiler out, which takes longer than most
    operations do. Only for a function that keeps the compiler out by itself.
    """
    method = vars(mode)["__torch_dispatch__"]
    can_be_marked = _strategy is not None and _set_strategy is not None
    return getattr(method, "__wrapped__", method) if can_be_marked else method


def schema_of(operation: OpOverload) -> Any:
    """What an operation declares of its arguments and results."""
    return operation._schema


def packet_of(operation: OpOverload) -> Any:
    """All operations of the same name."""
    return operation._overloadpacket


# dispatch modes

_pop_mode = find("torch.utils._python_dispatch", "_pop_mode")
_push_mode = find("torch.utils._python_dispatch", "_push_mode")
# Without it, what is ours is known by its own mark all the same, and only costs more.
without_modes: Callable[[], AbstractContextManager[Any]] = find(
    "torch.utils._python_dispatch", "_disable_current_modes", contextlib.nullcontext
)
_current_modes = find("torch.utils._python_dispatch", "_get_current_dispatch_mode_stack", list)


def dispatch_modes() -> list[Any]:
    """The dispatch modes that are at work, the innermost last; none where torch does not say."""
    return list(_current_modes())


def leave_mode(mode: TorchDispatchMode) -> None:
    """End a dispatch mode, which need not be the innermost one."""
    if _pop_mode is None or _push_mode is None:
        mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # untyped in torch
        return
    above = []
    while (innermost := _pop_mode()) is not mode:
        above.append(innermost)
    for other in reversed(above):
        _push_mode(other)


# functorch

_FUNCTORCH = "_C._functorch."
is_wrapped: Callable[[Tensor], bool] = find(
    "torch", _FUNCTORCH + "is_functorch_wrapped_tensor", lambda _: False
)
_unwrapped = find("torch", _FUNCTORCH + "get_unwrapped")
# Asked by native code too, by its address. Without it, no transform is ever found.
innermost_transform: Callable[[], Any] = find(
    "torch", _FUNCTORCH + "peek_interpreter_stack", lambda: None
)
outside_transforms: Callable[[], AbstractContextManager[Any]] = find(
    "torch._functorch.pyfunctorch",
    "temporarily_clear_interpreter_stack",
    contextlib.nullcontext,
)


def unwrapped(tensor: Tensor) -> Tensor:
    """The tensor itself, where `torch.func` has put a wrapper around it."""
    while _unwrapped is not None and is_wrapped(tensor):
        tensor = _unwrapped(tensor)
    return tensor


# nested values

_map_only = find("torch.utils._pytree", "tree_map_only")
_leaves = find("torch.utils._pytree", "tree_leaves")


def map_only(kind: Any, function: Callable[[Any], Any], tree: Any) -> Any:
    """Nested lists, tuples and dictionaries with the values of that kind replaced."""
    if _map_only is not None:
        return _map_only(kind, function, tree)
    if isinstance(tree, kind):
        return function(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_only(kind, function, part) for part in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(map_only(kind, function, part) for part in tree)
    if isinstance(tree, dict):
        return {key: map_only(kind, function, part) for key, part in tree.items()}
    return tree


def leaves_of(tree: Any) -> list[Any]:
    """The values in nested lists, tuples and dictionaries."""
    if _leaves is not None:
        return list(_leaves(tree))
    found: list[Any] = []
    _collect(tree, found)
    return found


def _collect(tree: Any, found: list[Any]) -> None:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        for part in tree:
            _collect(part, found)
    else:
        found.append(tree)


# data loaders

# What hands out the batches of a data loader, as (class, name); None where it is called otherwise.
LoaderIterator: Any = find("torch.utils.data.dataloader", "_BaseDataLoaderIter")


# the compiler

_skip = find("torch._C._dynamo", "eval_frame._FrameAction.SKIP")
_default = find("torch._C._dynamo", "eval_frame._FrameAction.DEFAULT")
_strategy = find("torch._C._dynamo", "eval_frame._FrameExecStrategy")
_set_strategy = find("torch._C._dynamo", "eval_frame.set_code_exec_strategy")


def mark_code(code: Any, *, with_calls: bool) -> bool:
    """Keep the compiler out of a function's code, with all that it calls or without.

    Whether that could be said: an older torch has no word for it.
    """
    if _strategy is None or _set_strategy is None:
        return False
    _set_strategy(code, _strategy(_skip, _skip if with_calls else _default))
    return True


def mark_disabled(function: Any) -> None:
    """As `torch.compiler.disable` marks a function, which would load the compiler for it."""
    function._torchdynamo_disable = True


def mark_constant(function: Any) -> None:
    """As `torch.compiler.assume_constant_result` marks a function, likewise."""
    function._dynamo_marked_constant = True


def is_traced(tensor: Any) -> bool:
    """Whether a compiler is looking at the program with tensors that hold no values."""
    return type(tensor).__module__.startswith("torch._subclasses")


# Where compiled functions are called from, but for the first: its `__call__` comes before that.
COMPILED_FILES = ("torch/_dynamo/eval_frame.py", "torch/_inductor/output_code.py")


def loaded_stances() -> Any:
    """The module that says whether functions are compiled, if the program has loaded it.

    None before torch 2.6, which has no such thing.
    """
    stances = sys.modules.get("torch._dynamo.decorators")
    return stances if hasattr(stances, SET_STANCE) else None


SET_STANCE = "_set_stance"


def loaded_compiler_settings() -> Any:
    """The settings of the compiler, if the program has loaded it."""
    return sys.modules.get("torch._dynamo.config")


# torch's own library

LIBRARY_FILE: str | None = find("torch", "_C.__file__")
_make_handles = find("torch", "_C._aoti.unsafe_alloc_void_ptrs_from_tensors")


def handle_of(tensor: Tensor) -> Any:
    """A capsule with a handle of the stable C interface; LookupError where there is none."""
    if _make_handles is None:
        raise LookupError("this torch hands out no handles to tensors")
    (capsule,) = _make_handles([tensor])
    return capsule


# Where a custom autograd function is applied in the end. `Function.apply` looks it up at every
# call, so that it reaches what a program has bound before: `gelu = Gelu.apply`.
APPLIED = find("torch.autograd.function", "_SingleLevelFunction", torch.autograd.Function)


def apply_unchanged(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """What `apply` of a custom function gives, whatever stands in APPLIED."""
    return super(APPLIED, cls).apply(*args, **kwargs)
