"""Watching with one line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from loops import train

import lossleuth


def test_one_line_records_the_loop_and_stops_when_told(tmp_path: Path) -> None:
    watching = lossleuth.watch(out=tmp_path / "run")
    losses = train(3)
    watching.stop()
    train(2)
    record = lossleuth.Record.open(watching.directory)
    assert record.series("loss").tolist() == losses
    assert record.ended is not None
    assert record.ended["how"] == "stop"
    assert "item" not in vars(torch.Tensor)


def test_a_second_watch_gets_a_directory_of_its_own(tmp_path: Path) -> None:
    for expected in ("run", "run-2"):
        with lossleuth.watch(out=tmp_path / "run") as watching:
            train(1)
        assert watching.directory == tmp_path / expected


def test_an_optimizer_that_is_given_is_known_before_its_first_step(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    with lossleuth.watch(model, optimizer, out=tmp_path / "run") as watching:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    record = lossleuth.Record.open(watching.directory)
    # In its order, not in the one in which a backward pass reaches them.
    assert record.parameter_names == [name for name, _ in model.named_parameters()]
    (settings,) = [event.data for event in record.events("settings")]
    assert settings["optimizers"][0]["class"] == "AdamW"
    assert settings["idle_optimizers"] == []


@dataclass
class Wrapper:
    """Looks like an optimizer, and cannot be remembered as one."""

    param_groups: list[object]


class Model(torch.nn.Linear):
    """Tells its parameters by groups."""

    def param_groups(self) -> list[object]:
        return [*self.parameters()]


def test_what_only_looks_like_an_optimizer_is_left_alone(tmp_path: Path) -> None:
    model = Model(2, 2)
    with lossleuth.watch(Wrapper([]), model, None, out=tmp_path / "run") as watching:
        train(2)
    assert watching._watch.session.failures.sentence() is None
    record = lossleuth.Record.open(watching.directory)
    idle = [name for event in record.events("settings") for name in event.data["idle_optimizers"]]
    assert record.events("settings") and not {"Wrapper", "Model"} & {*idle}
