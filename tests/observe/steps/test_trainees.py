"""What is trained, by data flow: small loops of every shape, watched in this process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import torch
from loops import read, watching
from torch import nn
from torch.nn import functional as F

from lossleuth.types.phases import segments

Parameters = Iterable[torch.Tensor]


def model(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 11))


def step(trained: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    tokens = torch.randint(0, 11, (4, 6))
    loss = F.cross_entropy(trained(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def train(trained: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> Iterator[float]:
    for _ in range(steps):
        yield step(trained, optimizer)


def teacher_then_student() -> Iterator[float]:
    teacher = model(0)
    yield from train(teacher, torch.optim.AdamW(teacher.parameters(), lr=0.01), 30)
    student = model(1)
    yield from train(student, torch.optim.AdamW(student.parameters(), lr=0.01), 20)


def both_made_at_first() -> Iterator[float]:
    first, second = model(0), model(1)
    one = torch.optim.SGD(first.parameters(), lr=0.01)
    other = torch.optim.SGD(second.parameters(), lr=0.01)
    yield from train(first, one, 30)
    yield from train(second, other, 20)


def fitted(trained: nn.Module, rate: float, steps: int) -> Iterator[float]:
    yield from train(trained, torch.optim.AdamW(trained.parameters(), lr=rate), steps)


def pre_trained_then_tuned() -> Iterator[float]:
    """One function for both, called at two lines."""
    trained = model()
    yield from fitted(trained, 0.01, 30)
    yield from fitted(trained, 0.001, 20)


def three_seeds() -> Iterator[float]:
    for seed in range(3):
        trained = model(seed)
        yield from train(trained, torch.optim.Adam(trained.parameters(), lr=0.01), 12)


def warmed_up_by_another() -> Iterator[float]:
    trained = model()
    yield from train(trained, torch.optim.SGD(trained.parameters(), lr=0.1), 15)
    yield from train(trained, torch.optim.AdamW(trained.parameters(), lr=0.01), 25)


def in_turn() -> Iterator[float]:
    first, second = model(0), model(1)
    one = torch.optim.Adam(first.parameters(), lr=0.01)
    other = torch.optim.Adam(second.parameters(), lr=0.01)
    for turn in range(30):
        yield step(first, one) if turn % 2 else step(second, other)


def in_turns_of_many() -> Iterator[float]:
    first, second = model(0), model(1)
    one = torch.optim.Adam(first.parameters(), lr=0.01)
    other = torch.optim.Adam(second.parameters(), lr=0.01)
    for _ in range(2):
        yield from train(first, one, 10)
        yield from train(second, other, 10)


def made_anew_every_epoch() -> Iterator[float]:
    trained = model()
    for epoch in range(4):
        optimizer = torch.optim.AdamW(trained.parameters(), lr=0.01 * 0.5**epoch)
        yield from train(trained, optimizer, 8)


def made_anew_every_step() -> Iterator[float]:
    trained = model()
    for _ in range(20):
        yield step(trained, torch.optim.AdamW(trained.parameters(), lr=0.01))


def unfrozen_one_by_one() -> Iterator[float]:
    trained = model()
    trained.requires_grad_(False)
    trained[2].requires_grad_(True)
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    for layer in (1, 0):
        yield from train(trained, optimizer, 8)
        trained[layer].requires_grad_(True)
    yield from train(trained, optimizer, 8)


def joined_group_by_group() -> Iterator[float]:
    trained = model()
    optimizer = torch.optim.Adam(trained[2].parameters(), lr=0.01)
    for layer in (1, 0):
        yield from train(trained, optimizer, 8)
        optimizer.add_param_group({"params": list(trained[layer].parameters())})
    yield from train(trained, optimizer, 8)


def unfrozen_with_an_optimizer_for_each_stage() -> Iterator[float]:
    trained = model()
    for first in (2, 1, 0):
        chosen = [p for layer in trained[first:] for p in layer.parameters()]
        yield from train(trained, torch.optim.Adam(chosen, lr=0.01), 8)


def groups_replaced() -> Iterator[float]:
    trained = model()
    optimizer = torch.optim.Adam(trained[2].parameters(), lr=0.01)
    yield from train(trained, optimizer, 8)
    optimizer.param_groups[0]["params"] = list(trained[0].parameters())
    yield from train(trained, optimizer, 8)


def skipped_at_first() -> Iterator[float]:
    """A scaler skips updates of what comes second."""
    yield from fitted(model(0), 0.01, 10)
    trained = model(1)
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number in range(10):
        tokens = torch.randint(0, 11, (4, 6))
        loss = F.cross_entropy(trained(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if number < 2:
            trained[2].bias.grad[0] = math.inf
        scaler.step(optimizer)
        scaler.update()
        yield loss.item()


Program = Callable[[], Iterator[float]]
ONE: list[Program] = [
    *(in_turn, in_turns_of_many, made_anew_every_epoch, made_anew_every_step),
    *(unfrozen_one_by_one, joined_group_by_group, unfrozen_with_an_optimizer_for_each_stage),
    groups_replaced,
]
SEVERAL: dict[Program, list[int]] = {
    teacher_then_student: [0, 30],
    both_made_at_first: [0, 30],
    pre_trained_then_tuned: [0, 30],
    three_seeds: [0, 12, 24],
    warmed_up_by_another: [0, 15],
    skipped_at_first: [0, 10],
}


def begins(folder: Path, program: Program) -> list[int]:
    """The first step of each phase; losses are those of the bare program."""
    bare = list(program())
    with watching(folder) as observer:
        watched = list(program())
    assert watched == bare and observer.session.failures.count == 0
    record = read(folder)
    assert len(record) == len(bare)
    return [begin for begin, _ in segments(record.values("trained"))]


@pytest.mark.parametrize("program", ONE, ids=lambda program: program.__name__)
def test_what_goes_on_is_one_phase(tmp_path: Path, program: Program) -> None:
    assert begins(tmp_path / "run", program) == [0]


@pytest.mark.parametrize("program", SEVERAL, ids=lambda program: program.__name__)
def test_one_thing_after_another_is_a_phase_each(tmp_path: Path, program: Program) -> None:
    assert begins(tmp_path / "run", program) == SEVERAL[program]


def test_settings_and_floors_are_those_of_their_phase(tmp_path: Path) -> None:
    from lossleuth.examiner.load_evidence import evidence_of

    with watching(tmp_path / "run") as observer:
        for _ in warmed_up_by_another():
            pass
        for _ in teacher_then_student():
            pass
        observer.trace_origins([])
    whole = evidence_of(tmp_path / "run")
    found = [whole.of_phase(phase) for phase in whole.phases]
    assert [(e.phase.first, len(e.steps)) for e in found if e.phase] == [
        *((0, 15), (15, 25), (40, 30), (70, 20)),
    ]
    decays = [[g.weight_decay for g in e.settings.groups] for e in found]
    assert decays == [[0], [0.01], [0.01], [0.01]]
    assert [len(e.settings.optimizers) for e in found] == [1, 1, 1, 1]
    # Parameters are those that are updated in it: of three models in all.
    assert [len(e.parameters) for e in found] == [5, 5, 5, 5]
    assert len(whole.parameters) == 15
    assert all(len(row) == 5 for e in found for row in e.readings.update_rms)
    assert found[-1].floors.unigram is not None


def test_lines_are_known_in_every_phase(tmp_path: Path) -> None:
    from lossleuth.causes.reasoning import backward_place, update_place
    from lossleuth.examiner.load_evidence import evidence_of

    with watching(tmp_path / "run"):
        for _ in pre_trained_then_tuned():
            pass
    whole = evidence_of(tmp_path / "run")
    for phase in whole.phases:
        evidence = whole.of_phase(phase)
        backward, update = backward_place(evidence), update_place(evidence)
        assert backward is not None and update is not None
        assert (Path(str(backward.file)).name, update.line) == (
            Path(__file__).name,
            (backward.line or 0) + 1,
        )
