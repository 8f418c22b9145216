"""Torch's C interface says of tensors what Python says of them, and refuses what Python refuses."""

from __future__ import annotations

import math
import weakref
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from awkward_tensors import AWKWARD
from needs import need_native
from torch import Tensor, nn

from lossleuth import torch_internals
from lossleuth.native import handles as module
from lossleuth.native import library as native
from lossleuth.native.handles import NAMES, Handles, Places, handles
from lossleuth.native.table import TYPES


@pytest.fixture
def found() -> Handles:
    need_native()
    interface = handles()
    if interface is None:
        pytest.skip("the library was built without Python's headers")
    return interface


def located(found: Handles, tensors: list[Any], counts: list[int], expected: int = 0) -> Any:
    held = np.array([counts, [expected] * len(counts), counts, counts], np.int64)
    places = [row.ctypes.data for row in held]
    if not expected:
        places[1] = 0
    held[2:] = -1
    whole = found.locate(*Places(*places), tensors)
    return (held[2].tolist(), held[3].tolist()) if whole else None


def test_this_torch_has_the_interface() -> None:
    """Private to torch: where this fails, steps are observed more slowly."""
    need_native()
    library = native.load()
    assert library is not None
    if library.calls is not None:
        assert handles() is not None


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_plain_tensors_are_found(found: Handles, dtype: torch.dtype) -> None:
    tensors = [torch.ones(6, dtype=dtype), nn.Parameter(torch.ones(2, 3, dtype=dtype))]
    tensors += [torch.ones(12, dtype=dtype)[3:9], torch.ones(1, 6, 1, dtype=dtype).mT]
    expected = [tensor.data_ptr() for tensor in tensors], [TYPES[dtype]] * 4
    assert located(found, tensors, [6] * 4) == expected
    assert located(found, tensors, [6] * 4, TYPES[dtype]) == expected
    assert located(found, tensors, [6] * 4, TYPES[dtype] % 4 + 1) is None


@pytest.mark.parametrize("name", AWKWARD)
def test_what_an_address_does_not_describe_is_refused(
    found: Handles, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    good = torch.ones(6)
    assert located(found, [good, AWKWARD[name](), good], [6, 6, 6]) is None
    # A refusal of torch's would be told to the user.
    assert capfd.readouterr() == ("", "")


def test_what_is_no_tensor_is_refused(found: Handles) -> None:
    assert located(found, [torch.ones(6), "six"], [6, 6]) is None


def test_none_is_absent_unless_a_type_is_expected(found: Handles) -> None:
    good = torch.ones(6)
    assert located(found, [None, good], [6, 6]) == ([0, good.data_ptr()], [0, 1])
    assert located(found, [None, good], [6, 6], 1) is None


def test_more_tensors_than_are_looked_at_together_are_found(found: Handles) -> None:
    tensors = [torch.ones(2) for _ in range(200)]
    places = [tensor.data_ptr() for tensor in tensors]
    assert located(found, tensors, [2] * 200) == (places, [1] * 200)


def test_no_tensors_are_found_at_once(found: Handles) -> None:
    assert located(found, [], []) == ([], [])
    assert located(found, [torch.ones(0, 3)], [0]) is not None


def test_asking_keeps_no_tensor_alive(found: Handles) -> None:
    for others in ([], [torch.ones(12)[::2]]):
        held = torch.ones(6)
        gone = weakref.ref(held)
        located(found, [held, *others], [6] * (1 + len(others)))
        found.numbers([held, *others])
        del held
        assert gone() is None


def test_inside_a_transform_nothing_is_asked(found: Handles) -> None:
    answers: list[Any] = []

    def inner(x: Tensor) -> Tensor:
        answers.append(located(found, [x], [6]))
        answers.append(found.numbers([x.sum()]))
        return x.sum()

    torch.func.grad(inner)(torch.ones(6))
    assert answers == [None, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64], ids=str)
def test_single_numbers_are_read(found: Handles, dtype: torch.dtype) -> None:
    numbers = [torch.tensor(7, dtype=dtype), torch.tensor([[-3]], dtype=dtype)]
    assert found.numbers(numbers) == [7.0, -3.0]


def test_other_things_than_single_numbers_are_not(found: Handles) -> None:
    good = torch.tensor(1.0)
    for other in (None, torch.ones(2), torch.tensor(1.0, dtype=torch.float16), 3.0):
        assert found.numbers([good, other]) is None
    (read,) = found.numbers([torch.tensor(math.nan)]) or [0.0]
    assert math.isnan(read)


def test_wrong_calls_raise_and_do_not_crash(found: Handles) -> None:
    library = native.load()
    assert library is not None and library.calls is not None
    for arguments in ((), (1,), ("address", []), (1, (torch.ones(1),)), (1, [], 3)):
        with pytest.raises(TypeError):
            library.calls.numbers(*arguments)
    with pytest.raises(TypeError):
        library.calls.before_step(1, 1, 1, 1, 1, [], [], NAMES[:-1])


def test_a_switched_off_library_asks_nothing() -> None:
    with mock.patch.object(native, "load", lambda: None):
        assert handles() is None


def without_interface(monkeypatch: pytest.MonkeyPatch) -> Handles | None:
    """What is found when it is looked for now, with these changes undone afterwards."""
    module._of.cache_clear()
    try:
        return handles()
    finally:
        monkeypatch.undo()
        module._of.cache_clear()


def test_a_torch_without_the_interface_is_asked_in_python(
    found: Handles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_internals, "_make_handles", None)
    assert without_interface(monkeypatch) is None
    assert handles() is not None


@pytest.mark.parametrize("wrong", [None, 1])
def test_tensors_that_are_not_laid_out_as_expected_are_asked_in_python(
    found: Handles, monkeypatch: pytest.MonkeyPatch, wrong: int | None
) -> None:
    """A torch that keeps the pointer elsewhere must not be read there."""
    monkeypatch.setattr(module, "_inner_of", lambda *_: wrong)
    assert without_interface(monkeypatch) is None


def test_an_inner_tensor_that_leads_elsewhere_is_not_trusted(
    found: Handles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "data_ptr", lambda _: 4096)
    assert without_interface(monkeypatch) is None
