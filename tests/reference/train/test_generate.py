"""Drawing tokens."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from small import CONTEXT, VOCABULARY, small_model

from lossleuth.reference.train.generate import Sampling, draw, generate, window_start
from lossleuth.types.errors import BadInput

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0]).log_softmax(0)


def shares(sampling: Sampling, draws: int = 4000) -> list[float]:
    generator = torch.Generator().manual_seed(0)
    counts = Counter(draw(LOGITS, sampling, generator) for _ in range(draws))
    return [counts[i] / draws for i in range(len(LOGITS))]


def within_noise(found: list[float], expected: torch.Tensor) -> bool:
    """Four standard errors of a share over 4 000 draws."""
    return all(
        abs(f - p) <= 4 * (p * (1 - p) / 4000) ** 0.5
        for f, p in zip(found, expected.tolist(), strict=True)
    )


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_cache_does_not_change_the_tokens(positions: str, temperature: float) -> None:
    model = small_model(positions=positions)
    sampling = Sampling(temperature=temperature, seed=3)
    length = 3 * CONTEXT
    runs = [
        list(generate(model, [5, 6], length, sampling, stop=-1, cached=cached))
        for cached in (True, False)
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) == length


def test_the_window_always_fits_and_always_holds_the_newest_half() -> None:
    for length in range(1, 100):
        start = window_start(length, CONTEXT)
        assert 0 < length - start <= CONTEXT
        assert start == 0 or length - start > CONTEXT // 2


def test_the_seed_decides_the_tokens() -> None:
    model = small_model()

    def text(seed: int) -> list[int]:
        return list(generate(model, [5], 12, Sampling(1.0, seed=seed), stop=-1))

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_generation_stops_at_the_stop_token_and_never_draws_the_forbidden_one() -> None:
    model = small_model()
    free = list(generate(model, [5], 40, Sampling(1.0), stop=-1))
    stop, never = free[3], free[0]
    stopped = list(generate(model, [5], 40, Sampling(1.0), stop=stop))
    assert stopped == free[: free.index(stop)]
    without = list(generate(model, [5], 200, Sampling(1.0), stop=-1, never=never))
    assert never not in without
    assert len(set(without)) == VOCABULARY - 1


def test_temperature_scales_the_logits() -> None:
    assert within_noise(shares(Sampling(1.0)), LOGITS.softmax(0))
    assert within_noise(shares(Sampling(0.5)), (LOGITS / 0.5).softmax(0))
    assert draw(LOGITS, Sampling(0.0), torch.Generator()) == 0


def test_top_k_keeps_the_k_likeliest() -> None:
    kept = LOGITS.softmax(0).clone()
    kept[2:] = 0
    assert within_noise(shares(Sampling(1.0, top_k=2)), kept / kept.sum())


@pytest.mark.parametrize(("top_p", "count"), [(0.01, 1), (0.6, 1), (0.7, 2), (0.9, 3), (1.0, 4)])
def test_top_p_keeps_the_fewest_that_reach_p(top_p: float, count: int) -> None:
    # Shares of the four tokens: 0.644, 0.237, 0.087, 0.032.
    kept = LOGITS.softmax(0).clone()
    kept[count:] = 0
    assert within_noise(shares(Sampling(1.0, top_p=top_p)), kept / kept.sum())


@pytest.mark.parametrize("temperature", [1e-320, 5e-324, 1e-30])
def test_a_tiny_temperature_takes_the_likeliest(temperature: float) -> None:
    sampling = Sampling(temperature=temperature)
    drawn = {draw(100 * LOGITS, sampling, torch.Generator()) for _ in range(5)}
    assert drawn == {0}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_refused(temperature: float) -> None:
    model = small_model()
    with torch.no_grad():
        model.embedding.weight[3] = torch.nan
    with pytest.raises(BadInput, match="finite numbers from the model, found NaN or infinity"):
        list(generate(model, [5], 3, Sampling(temperature), stop=-1))
