"""Models in which no token reaches another position: by design, and by a fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from steps import VOCABULARY, WIDTH, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.model import Leaks
from lossleuth.probes.model.changed_tokens import step_to_change
from lossleuth.probes.model.leaks import leaks
from lossleuth.probes.model.position_mixers import mixes_positions
from lossleuth.tape.roles.roles import find_roles

Between = Callable[[Tensor], Tensor]
LENGTH = 8


def found_with(between: Between) -> tuple[Leaks, bool]:
    """A model of an embedding, something in the middle, and a last layer."""
    torch.manual_seed(1)
    embedding, head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def loss(_: nn.Module, tokens: Tensor) -> Tensor:
        logits = head(between(embedding(tokens[:, :-1])))
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    window = recorded_step(loss)
    step = step_to_change(window, find_roles(window))
    return leaks(window, find_roles(window)), mixes_positions(step)


def nothing(h: Tensor) -> Tensor:
    return h


def layers() -> Between:
    return nn.Sequential(
        *(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, 2 * WIDTH)),
        nn.GLU(),
    )


def with_positions() -> Between:
    places, layer = torch.randn(LENGTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    return lambda h: h + layer(places)


def one_by_one() -> Between:
    """The same layer at each position, in a loop."""
    layer = nn.Linear(WIDTH, WIDTH)
    return lambda h: torch.stack([layer(h[:, t]).tanh() for t in range(h.shape[1])], 1)


@pytest.mark.parametrize(
    "make",
    [lambda: nothing, layers, with_positions, one_by_one],
    ids=["table", "layers", "positions", "loop"],
)
def test_a_model_of_pairs_has_nothing_that_mixes(make: Callable[[], Between]) -> None:
    found, mixes = found_with(make())
    assert (found.reach, mixes) == (0, False)


def attention(*, fused: bool) -> Between:
    """Each position sees itself."""
    project, itself = nn.Linear(WIDTH, 3 * WIDTH), torch.eye(LENGTH, dtype=torch.bool)

    def attend(h: Tensor) -> Tensor:
        q, k, v = project(h).chunk(3, -1)
        if fused:
            return h + F.scaled_dot_product_attention(q, k, v, attn_mask=itself)
        weights = (q @ k.transpose(1, 2)).masked_fill(~itself, -torch.inf).softmax(-1)
        return h + weights @ v

    return attend


def convolution() -> Between:
    """One token wide."""
    layer = nn.Conv1d(WIDTH, WIDTH, 1)
    return lambda h: layer(h.transpose(1, 2)).transpose(1, 2)


def recurrence() -> Between:
    """Its state is made anew at every token."""
    cell = nn.GRUCell(WIDTH, WIDTH)
    empty = torch.zeros(3, WIDTH)
    return lambda h: torch.stack([cell(h[:, t], empty) for t in range(h.shape[1])], 1)


def of_torch() -> Between:
    """One text for each token."""
    layer = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    return lambda h: layer(h.reshape(-1, 1, WIDTH))[0].reshape(h.shape)


def gated() -> Between:
    """As gMLP mixes positions, by weights of which the mask leaves the diagonal."""
    weights, itself = nn.Parameter(torch.randn(LENGTH, LENGTH)), torch.eye(LENGTH)
    return lambda h: h + (weights * itself) @ h


def scan() -> Between:
    """Element by element; its state is made anew at every token."""
    decay, empty = nn.Parameter(torch.rand(WIDTH)), torch.zeros(3, WIDTH)
    return lambda h: torch.stack([decay * empty + h[:, t] for t in range(h.shape[1])], 1)


def shifted(h: Tensor) -> Tensor:
    """The token before is put beside, and weighs nothing."""
    return h + 0.0 * torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)


def long_convolution(h: Tensor) -> Tensor:
    """By its transform, with a filter that is 1 at its beginning alone."""
    return torch.fft.irfft(torch.fft.rfft(h, dim=1) * torch.ones(()), n=h.shape[1], dim=1)


def test_a_convolution_by_its_transform_mixes() -> None:
    assert found_with(long_convolution)[1]


@pytest.mark.parametrize(
    "make",
    [
        gated,
        scan,
        lambda: shifted,
        lambda: attention(fused=False),
        lambda: attention(fused=True),
        convolution,
        recurrence,
        of_torch,
        lambda: lambda h: h + 0.0 * h.cumsum(1),
        lambda: lambda h: h + 0.0 * h.mean(1, keepdim=True),
        lambda: lambda h: h + 0.0 * h.roll(1, 1),
    ],
    ids=[
        "gated",
        "scan",
        "moved",
        "attention",
        "fused",
        "convolution",
        "cell",
        "lstm",
        "sum",
        "mean",
        "shift",
    ],
)
def test_what_was_made_to_look_back_and_does_not_is_told(make: Callable[[], Between]) -> None:
    found, mixes = found_with(make())
    assert (found.reach, mixes) == (0, True)
