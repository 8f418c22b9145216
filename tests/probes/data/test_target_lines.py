"""The lines that made the targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from steps import recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.data import TargetLines
from lossleuth.probes.data.target_lines import target_lines
from lossleuth.tape.roles.roles import find_roles

CHOSEN = ("targets", "logits", "passed", "filled")
Loss = Callable[[nn.Module, Tensor], Tensor]


def found(loss_of: Loss) -> TargetLines:
    window = recorded_step(loss_of)
    places = target_lines(window, find_roles(window))
    assert places is not None
    # The batch is made within the step as well, elsewhere.
    here = {name: tuple(p for p in getattr(places, name) if __file__ in p) for name in CHOSEN}
    return replace(places, **here)


def line(function: Loss, number: int) -> str:
    """The place of a line, counted from the function's head."""
    return f"{__file__}:{function.__code__.co_firstlineno + number}"


def shifted(model: nn.Module, tokens: Tensor) -> Tensor:
    scores = model(tokens)
    kept = scores[:, :-1]
    targets = tokens[:, 1:]
    flat = targets.reshape(-1)
    return F.cross_entropy(kept.flatten(0, 1), flat)


def test_the_lines_that_choose_are_told_from_those_that_pass_on() -> None:
    places = found(shifted)
    assert places.loss == line(shifted, 5)
    assert places.targets == (line(shifted, 3),)
    assert places.logits == (line(shifted, 2),)
    assert places.passed == (line(shifted, 4), line(shifted, 3))


def rolled(model: nn.Module, tokens: Tensor) -> Tensor:
    targets = tokens.roll(-1, dims=1)
    targets = targets[:]
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def test_what_takes_all_chooses_nothing() -> None:
    places = found(rolled)
    assert places.targets == (line(rolled, 1),)
    assert places.logits == ()


def test_without_targets_there_are_no_places() -> None:
    window = recorded_step(lambda model, tokens: model(tokens).square().mean())
    assert target_lines(window, find_roles(window)) is None
    assert target_lines(window, None) is None


def masked(model: nn.Module, tokens: Tensor) -> Tensor:
    targets = tokens[:, 1:].clone()
    targets[:, :3] = -100
    targets = targets.masked_fill(targets == 5, -100)
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), targets.flatten())


def test_lines_that_put_a_number_in_the_place_of_targets_are_found() -> None:
    assert found(masked).filled == (line(masked, 3), line(masked, 2))
    assert found(shifted).filled == ()
