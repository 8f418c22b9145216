"""The oracle and the torch model are the same function with the same gradient.

Both work in float64 here, so what they may differ by is rounding: 1e-10 of the gradient's norm
is a million times float64's precision, and far below what any wrong term would cause.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from lossleuth.reference.train import oracle
from lossleuth.reference.train.model import LanguageModel, ModelShape

TOLERANCE = 1e-10
IGNORED = -100
Named = dict[str, NDArray[np.float64]]
Ids = NDArray[np.int64]

# T = 5 is shorter than the context, and all axes differ.
ROWS, LENGTH = 2, 5
SHAPES = [
    ModelShape(
        vocabulary=11,
        context=7,
        layers=layers,
        heads=3,
        width=12,
        positions=positions,
        tied=tied,
    )
    for positions, tied, layers in product(("learned", "rotary"), (True, False), (1, 3))
]
DEEP = [shape for shape in SHAPES if shape.layers > 1]


def identify(shape: ModelShape) -> str:
    return f"{shape.positions}-{'tied' if shape.tied else 'untied'}-{shape.layers}"


def drawn(shape: ModelShape, seed: int = 0) -> Named:
    """Parameters of ordinary size; no bias is zero and no gain is one, so that all of them act."""
    random = np.random.default_rng(seed)
    return {
        name: random.standard_normal(size) / np.sqrt(size[-1])
        if len(size) == 2
        else random.standard_normal(size) * 0.3 + ("norm.weight" in name)
        for name, size in oracle.parameter_shapes(shape).items()
    }


def batch(shape: ModelShape, seed: int = 1) -> tuple[Ids, Ids]:
    """Tokens and targets, with masked targets in both rows."""
    random = np.random.default_rng(seed)
    tokens, targets = random.integers(0, shape.vocabulary, (2, ROWS, LENGTH))
    targets[0, :2] = targets[1, -1] = IGNORED
    return tokens, targets


def by_torch(
    shape: ModelShape, parameters: Named, tokens: Ids, targets: Ids
) -> tuple[float, Named]:
    """Loss and gradients of the torch model in float64."""
    model = LanguageModel(shape).double().eval()
    named = dict(model.named_parameters())
    assert {name: tuple(value.shape) for name, value in named.items()} == {
        name: value.shape for name, value in parameters.items()
    }
    with torch.no_grad():
        for name, value in parameters.items():
            named[name].copy_(torch.from_numpy(value))
    logits = model(torch.from_numpy(tokens))
    loss = F.cross_entropy(
        logits.flatten(0, 1), torch.from_numpy(targets).flatten(), ignore_index=IGNORED
    )
    gradients = torch.autograd.grad(loss, list(named.values()))
    return loss.item(), dict(zip(named, (value.numpy() for value in gradients), strict=True))


def disagreement(found: Named, reference: Named) -> dict[str, float]:
    """Distance of each gradient from its reference, as a share of the reference's norm."""
    assert set(found) == set(reference)
    # A share of nearly nothing would say nothing; no gradient here is that small.
    assert min(float(np.linalg.norm(value)) for value in reference.values()) > 1e-3
    return {
        name: float(np.linalg.norm(found[name] - value) / np.linalg.norm(value))
        for name, value in reference.items()
    }


@pytest.mark.parametrize("shape", SHAPES, ids=identify)
def test_loss_and_every_gradient_agree_with_the_torch_model(shape: ModelShape) -> None:
    parameters, (tokens, targets) = drawn(shape), batch(shape)
    torch_loss, torch_gradients = by_torch(shape, parameters, tokens, targets)
    loss, saved = oracle.forward(parameters, tokens, targets, shape)
    errors = disagreement(oracle.backward(saved), torch_gradients)
    assert abs(loss - torch_loss) <= TOLERANCE * torch_loss
    assert {name: error for name, error in errors.items() if error > TOLERANCE} == {}


@pytest.mark.parametrize("shape", SHAPES, ids=identify)
def test_activations_recomputed_from_the_last_block_are_exact_for_one_layer_only(
    shape: ModelShape,
) -> None:
    """Founding case 1: a buffer that every block writes to holds the last block's at the end."""
    parameters, (tokens, targets) = drawn(shape), batch(shape)
    _, saved = oracle.forward(parameters, tokens, targets, shape)
    last = saved.blocks[-1]
    overwritten = tuple(
        block._replace(
            attention_norm=last.attention_norm._replace(gain_D=block.attention_norm.gain_D),
            feed_norm=last.feed_norm._replace(gain_D=block.feed_norm.gain_D),
            attention=last.attention,
            gelu=last.gelu,
        )
        for block in saved.blocks
    )
    gradients = oracle.backward(saved._replace(blocks=overwritten))
    errors = disagreement(gradients, oracle.backward(saved))
    assert (max(errors.values()) > 0.1) == (shape.layers > 1)
    assert errors["final_norm.weight"] == errors[f"blocks.{shape.layers - 1}.up.weight"] == 0


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_tied_gradient_is_the_sum_of_both_uses(positions: str) -> None:
    tied = ModelShape(11, 7, layers=2, heads=3, width=12, positions=positions, tied=True)
    untied = ModelShape(11, 7, layers=2, heads=3, width=12, positions=positions, tied=False)
    parameters, (tokens, targets) = drawn(tied), batch(tied)
    copied = parameters | {"output.weight": parameters["embedding.weight"]}
    whole = oracle.backward(oracle.forward(parameters, tokens, targets, tied)[1])
    parts = oracle.backward(oracle.forward(copied, tokens, targets, untied)[1])
    total = parts["embedding.weight"] + parts["output.weight"]
    assert np.array_equal(whole["embedding.weight"], total)


@pytest.mark.parametrize("shape", DEEP, ids=identify)
def test_a_later_token_cannot_change_an_earlier_logit(shape: ModelShape) -> None:
    parameters, (tokens, targets) = drawn(shape), batch(shape)
    before = oracle.forward(parameters, tokens, targets, shape)[1].logits_BTV
    tokens[:, 3] = (tokens[:, 3] + 1) % shape.vocabulary
    after = oracle.forward(parameters, tokens, targets, shape)[1].logits_BTV
    assert np.array_equal(before[:, :3], after[:, :3])
    assert np.all(before[:, 3:] != after[:, 3:])


@pytest.mark.parametrize("shape", DEEP, ids=identify)
def test_one_row_of_a_batch_cannot_change_another(shape: ModelShape) -> None:
    parameters, (tokens, targets) = drawn(shape), batch(shape)
    before = oracle.forward(parameters, tokens, targets, shape)[1].logits_BTV
    tokens[0] = (tokens[0] + 1) % shape.vocabulary
    after = oracle.forward(parameters, tokens, targets, shape)[1].logits_BTV
    assert np.array_equal(before[1], after[1])
    assert np.all(before[0] != after[0])


def test_inputs_of_the_forward_are_left_as_they_were() -> None:
    shape = SHAPES[0]
    parameters, (tokens, targets) = drawn(shape), batch(shape)
    loss, saved = oracle.forward(parameters, tokens, targets, shape)
    first = oracle.backward(saved)
    second = oracle.backward(saved)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert all(np.array_equal(parameters[name], value) for name, value in drawn(shape).items())
    assert oracle.forward(parameters, tokens, targets, shape)[0] == loss


def test_single_precision_parameters_are_computed_in_double() -> None:
    shape = SHAPES[0]
    single = {name: value.astype(np.float32) for name, value in drawn(shape).items()}
    double = {name: value.astype(np.float64) for name, value in single.items()}
    tokens, targets = batch(shape)
    loss, saved = oracle.forward(single, tokens, targets, shape)  # type: ignore[arg-type]
    assert loss == oracle.forward(double, tokens, targets, shape)[0]
    assert {value.dtype for value in oracle.backward(saved).values()} == {np.dtype(np.float64)}


def test_a_missing_parameter_is_named() -> None:
    parameters, (tokens, targets) = drawn(SHAPES[0]), batch(SHAPES[0])
    del parameters["blocks.0.up.bias"]
    with pytest.raises(ValueError, match=r"Expected blocks\.0\.up\.bias .* \(48,\), found None"):
        oracle.forward(parameters, tokens, targets, SHAPES[0])


def test_a_parameter_that_the_oracle_does_not_know_is_named() -> None:
    parameters, (tokens, targets) = drawn(SHAPES[0]), batch(SHAPES[0])
    parameters["output.bias"] = np.zeros(11)
    with pytest.raises(ValueError, match=r"Expected output\.bias with shape None, found \(11,\)"):
        oracle.forward(parameters, tokens, targets, SHAPES[0])


def test_a_sequence_longer_than_the_context_is_refused() -> None:
    tokens: Ids = np.zeros((1, 8), dtype=np.int64)
    with pytest.raises(ValueError, match="at most 7 tokens in a row, found 8"):
        oracle.forward(drawn(SHAPES[0]), tokens, tokens, SHAPES[0])


def test_a_kind_of_position_that_does_not_exist_is_refused() -> None:
    shape = SimpleNamespace(**asdict(SHAPES[0]) | {"positions": "rotery"})
    with pytest.raises(ValueError, match='"learned" or "rotary", found "rotery"'):
        oracle.parameter_shapes(shape)
