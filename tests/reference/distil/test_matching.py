"""Matching of hidden states and attention, and the contrastive loss, against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lossleuth import check_gradient
from lossleuth.reference.distil.matching import (
    HeadMixer,
    WidthProjector,
    attention_matching,
    contrastive,
    hidden_matching,
    paired_layers,
)
from lossleuth.reference.train.data import IGNORED
from lossleuth.reference.train.loss import NoSupervisedToken

B, T, D, E, H, G = 2, 4, 6, 5, 2, 3
CLOSE = 512 * 2**-52
# torch's layer norm adds this to the variance.
EPSILON = 1e-5

TARGETS = torch.tensor([[1, 2, 3, IGNORED], [4, IGNORED, 5, IGNORED]])


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def attention(heads: int, seed: int) -> Tensor:
    scores = drawn(B, heads, T, T, seed=seed)
    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(-1)


def supervised() -> list[tuple[int, int]]:
    return [(b, t) for b in range(B) for t in range(T) if TARGETS[b, t] != IGNORED]


def normalised(row: list[float]) -> list[float]:
    mean = math.fsum(row) / len(row)
    spread = math.fsum((x - mean) ** 2 for x in row) / len(row)
    return [(x - mean) / math.sqrt(spread + EPSILON) for x in row]


def unit(row: list[float]) -> list[float]:
    size = math.sqrt(math.fsum(x * x for x in row))
    return [x / size for x in row]


def projected(matrix: Tensor, row: Tensor) -> list[float]:
    return [
        math.fsum(w * x for w, x in zip(line, row.tolist(), strict=True))
        for line in matrix.tolist()
    ]


def test_hidden_matching_is_its_reference() -> None:
    student, teacher = drawn(B, T, D, seed=0), drawn(B, T, E, seed=1)
    projector = WidthProjector(D, E).double()
    expected = 0.0
    for b, t in supervised():
        ours = normalised(projected(projector.matrix.weight, student[b, t]))
        theirs = normalised(teacher[b, t].tolist())
        expected += sum((x - y) ** 2 for x, y in zip(ours, theirs, strict=True)) / E / 5
    found = hidden_matching(student, teacher, projector, TARGETS).item()
    assert abs(found - expected) <= CLOSE * expected


def test_attention_matching_is_its_reference() -> None:
    student, teacher, mixer = attention(H, 0), attention(G, 1), HeadMixer(H, G).double()
    shares = mixer.shares_GH.softmax(-1).tolist()
    expected = 0.0
    for b, t in supervised():
        for g in range(G):
            for u in range(t + 1):
                p = teacher[b, g, t, u].item()
                q = math.fsum(shares[g][h] * student[b, h, t, u].item() for h in range(H))
                expected += p * math.log(p / q) / G / 5
    found = attention_matching(student, teacher, mixer, TARGETS).item()
    assert abs(found - expected) <= CLOSE * expected


def test_the_contrastive_loss_is_its_reference() -> None:
    student, teacher = drawn(B, T, D, seed=0), drawn(B, T, E, seed=1)
    projector = WidthProjector(D, E).double()
    places = supervised()
    ours = [unit(projected(projector.matrix.weight, student[b, t])) for b, t in places]
    theirs = [unit(teacher[b, t].tolist()) for b, t in places]
    expected = 0.0
    for i, x in enumerate(ours):
        scores = [math.fsum(a * c for a, c in zip(x, y, strict=True)) / 0.1 for y in theirs]
        expected += (math.log(math.fsum(map(math.exp, scores))) - scores[i]) / len(places)
    found = contrastive(student, teacher, projector, TARGETS).item()
    assert abs(found - expected) <= 10 * CLOSE * expected


Matching = Callable[[Tensor, Tensor, nn.Module, Tensor], Tensor]
CASES: dict[str, tuple[Matching, Tensor, Tensor, nn.Module]] = {
    "hidden": (
        hidden_matching,
        drawn(B, T, D, seed=0),
        drawn(B, T, E, seed=1),
        WidthProjector(D, E).double(),
    ),
    "attention": (attention_matching, attention(H, 0), attention(G, 1), HeadMixer(H, G).double()),
    "contrastive": (
        contrastive,
        drawn(B, T, D, seed=0),
        drawn(B, T, E, seed=1),
        WidthProjector(D, E).double(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_student_and_projector_are_right(name: str) -> None:
    match, student, teacher, projector = CASES[name]
    (weight,) = projector.parameters()

    def value(states: Tensor, matrix: Tensor) -> Tensor:
        (key,) = dict(projector.named_parameters())

        def run(x: Tensor) -> Tensor:
            return torch.func.functional_call(projector, {key: matrix}, (x,))

        called = nn.Module()
        called.forward = run  # type: ignore[method-assign]  # a module made of one function
        return match(states, teacher, called, TARGETS)

    # Attention is moved inside what is seen, where it can be differentiated.
    assert check_gradient(
        value, [student.clamp_min(0.01) if name == "attention" else student, weight.detach()]
    )


@pytest.mark.parametrize("name", CASES)
def test_what_is_masked_is_not_even_read_and_the_teacher_gets_no_gradient(name: str) -> None:
    match, student, teacher, projector = CASES[name]
    expected = match(student, teacher, projector, TARGETS)
    masked = TARGETS == IGNORED
    spoilt = [x.clone() for x in (student, teacher)]
    for x in spoilt:
        rows = x.transpose(1, 2) if name == "attention" else x
        rows[masked] = math.nan
        x.requires_grad_()
    found = match(spoilt[0], spoilt[1], projector, TARGETS)
    assert torch.equal(found, expected)
    found.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert spoilt[0].grad is not None and spoilt[0].grad.isfinite().all()
    assert spoilt[1].grad is None


@pytest.mark.parametrize("name", CASES)
def test_no_supervised_token_raises(name: str) -> None:
    match, student, teacher, projector = CASES[name]
    with pytest.raises(NoSupervisedToken):
        match(student, teacher, projector, torch.full_like(TARGETS, IGNORED))


def test_heads_are_paired_when_there_are_equally_many() -> None:
    seen = attention(H, 0)
    mixer = HeadMixer(H, H).double()
    with torch.no_grad():
        mixer.shares_GH.mul_(100)
    assert attention_matching(seen, seen, mixer, TARGETS).item() < CLOSE


@pytest.mark.parametrize("student", [1, 2, 3, 5])
@pytest.mark.parametrize("teacher", [1, 2, 7])
def test_every_student_layer_has_a_teacher_and_the_last_has_the_last(
    student: int, teacher: int
) -> None:
    paired = paired_layers(student, teacher)
    assert len(paired) == student and paired[-1] == teacher - 1
    assert paired == sorted(paired) and paired[0] >= 0
