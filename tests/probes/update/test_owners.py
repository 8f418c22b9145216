"""Who holds a tensor."""

from __future__ import annotations

import inspect

import torch
from torch import nn

from lossleuth.probes.update.owners import Holder, assignment, held_by_optimizers, holder_of


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.known = nn.Linear(2, 2)
        self.layers = [nn.Linear(2, 2) for _ in range(2)]
        self.tables = {"first": [nn.Parameter(torch.ones(2))]}
        self.scale = torch.ones(2, requires_grad=True)
        self.same = [self.known]


def line(words: str) -> str:
    lines, first = inspect.getsourcelines(Stack)
    number = next(i for i, text in enumerate(lines) if words in text)
    return f"{__file__}:{first + number}"


def test_a_layer_in_a_list_is_hidden_by_the_line_that_made_the_list() -> None:
    stack = Stack()
    assert holder_of(stack.layers[1].weight) == Holder(False, line("self.layers"))


def test_a_parameter_in_a_dictionary_and_a_bare_tensor_are_hidden_too() -> None:
    stack = Stack()
    assert holder_of(stack.tables["first"][0]).hidden_at == line("self.tables")
    assert holder_of(stack.scale).hidden_at == line("self.scale")


def test_what_a_module_knows_is_registered_also_where_a_list_holds_it_once_more() -> None:
    stack = Stack()
    assert holder_of(stack.known.weight) == Holder(is_registered=True)


def test_a_list_that_somebody_else_put_there_hides_without_a_line() -> None:
    owner = nn.Sequential(nn.Linear(2, 2))
    layer = nn.Linear(2, 2)
    owner.layers = [layer]  # type: ignore[assignment]  # the fault
    assert holder_of(layer.weight) == Holder(is_registered=False)


def test_what_nobody_holds_is_neither() -> None:
    assert holder_of(torch.ones(2, requires_grad=True)) == Holder(is_registered=False)


def test_a_class_without_a_readable_source_has_no_line() -> None:
    made = type("Made", (nn.Module,), {})
    assert assignment(made, "layers") is None
    assert assignment(nn.Linear, "weight") is None
    assert assignment(Stack, "no_such_name") is None


def test_what_optimizers_hold_is_known() -> None:
    held, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([held], lr=0.1)
    found = held_by_optimizers()
    assert id(held) in found and id(other) not in found
    assert optimizer.param_groups
