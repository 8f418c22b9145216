"""The true loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small import CONTEXT, VOCABULARY, small_model, small_tokens

from lossleuth.reference.train.data import Span, make_windows
from lossleuth.reference.train.evaluate import Evaluation, bytes_of_targets, evaluate
from lossleuth.reference.train.model import KeyValueCache
from lossleuth.reference.train.tokenizer import CharTokenizer


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_every_token_weighs_the_same_whatever_the_batches(batch: int) -> None:
    model, tokens = small_model().eval(), small_tokens(100)
    spans = [Span(0, 30), Span(30, 33), Span(33, 99)]
    windows = make_windows(spans, CONTEXT, CONTEXT)
    total = 0.0
    for start, length in zip(windows.starts, windows.lengths, strict=True):
        chunk = torch.from_numpy(tokens[start : start + length + 1].astype(np.int64))
        logits = model(chunk[None, :-1])[0].double()
        total -= logits.log_softmax(1)[torch.arange(length), chunk[1:]].sum().item()

    result = evaluate(model, tokens, windows, batch=batch, target_bytes=None)

    assert result.tokens == 99
    assert math.isclose(result.loss, total / 99, rel_tol=1e-6)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_the_loss_under_generation_is_the_teacher_forced_loss(positions: str) -> None:
    model, tokens = small_model(positions=positions).eval(), small_tokens(CONTEXT + 1)
    windows = make_windows([Span(0, CONTEXT)], CONTEXT, CONTEXT)
    forced = evaluate(model, tokens, windows, batch=1, target_bytes=None).loss
    cache, total = KeyValueCache(), 0.0
    for t in range(CONTEXT):
        logits = model(torch.tensor([[int(tokens[t])]]), cache)[0, -1]
        total -= logits.log_softmax(0)[int(tokens[t + 1])].item()
    assert abs(total / CONTEXT - forced) < 1e-5


def test_the_standard_error_matches_the_spread_of_repeated_samples() -> None:
    model = small_model()
    losses, errors = [], []
    for seed in range(60):
        tokens = np.random.default_rng(seed).integers(2, VOCABULARY, 321).astype(np.uint16)
        windows = make_windows([Span(0, 320)], CONTEXT, CONTEXT)
        result = evaluate(model, tokens, windows, batch=20, target_bytes=None)
        losses.append(result.loss)
        errors.append(result.standard_error)
    # With 60 samples the spread itself is known to about 9 %; three times that is allowed.
    assert np.std(losses, ddof=1) == pytest.approx(np.mean(errors), rel=0.3)


def test_evaluation_leaves_mode_weights_and_random_stream_alone() -> None:
    model, tokens = small_model(dropout=0.3).train(), small_tokens(100)
    state = torch.get_rng_state()
    windows = make_windows([Span(0, 99)], CONTEXT, CONTEXT)
    first = evaluate(model, tokens, windows, batch=2, target_bytes=None)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert evaluate(model, tokens, windows, batch=2, target_bytes=None) == first


def test_bits_per_byte_counts_the_bytes_of_the_targets() -> None:
    tokenizer = CharTokenizer("aé")
    tokens = np.array([0, 2, 3, 0], dtype=np.uint16)
    assert bytes_of_targets(tokens, [Span(0, 3)], tokenizer) == 3
    result = Evaluation(loss=math.log(2), standard_error=0.0, tokens=3, bytes=3)
    assert result.bits_per_byte == pytest.approx(1.0)


def test_bits_per_byte_is_undefined_with_unknown_tokens() -> None:
    tokens = np.array([0, 1, 0], dtype=np.uint16)
    assert bytes_of_targets(tokens, [Span(0, 2)], CharTokenizer("a")) is None
    result = Evaluation(loss=1.0, standard_error=0.0, tokens=2, bytes=None)
    assert result.bits_per_byte is None
    assert "undefined (unknown tokens)" in result.sentence()


def test_bits_per_byte_of_no_bytes_are_undefined_for_that_reason() -> None:
    result = Evaluation(loss=1.0, standard_error=0.0, tokens=2, bytes=0)
    assert result.bits_per_byte is None
    assert "undefined (the targets stand for 0 bytes)" in result.sentence()


def test_the_unknown_share_is_told() -> None:
    result = Evaluation(1.0, 0.0, tokens=200, bytes=None, unknown_share=0.125)
    assert "(200 tokens, 12.50% unknown)" in result.sentence()


def test_a_loss_that_is_not_finite_is_said_plainly() -> None:
    model, tokens = small_model(), small_tokens(100)
    with torch.no_grad():
        model.embedding.weight[5] = torch.nan
    windows = make_windows([Span(0, 99)], CONTEXT, CONTEXT)
    result = evaluate(model, tokens, windows, batch=2, target_bytes=99)
    assert math.isnan(result.loss)
    assert math.isnan(result.perplexity)
    assert result.sentence() == "loss nan: what the model computes is not finite (99 tokens)"


def test_perplexity_is_never_capped() -> None:
    assert Evaluation(50.0, 0.0, 1, None).perplexity == math.exp(50)
    assert Evaluation(1e4, 0.0, 1, None).perplexity == math.inf
