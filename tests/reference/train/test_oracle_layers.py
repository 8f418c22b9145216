"""Every layer of the oracle against finite differences, and the check against planted faults.

A check whose tolerance is larger than the gradient cannot fail, so each tolerance is computed
from the measurement's own truncation and rounding, and is itself tested against the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.reference.train import oracle_layers as layers
from lossleuth.reference.train.oracle_layers import Array, Tokens

# All axes differ, so that a sum or a product over the wrong one cannot fit.
B, T, H, K, D, V, C = 2, 5, 3, 4, 6, 7, 8
TOKENS_BT: Tokens = np.array([[0, 3, 3, 6, 1], [3, 2, 0, 0, 5]])
TARGETS_BT: Tokens = np.array([[3, -100, 6, 1, -100], [2, 0, -100, 5, 4]])
ROTATION_T2P = layers.rotations(T, K)

UNIT_ROUNDOFF = 2.0**-53
# Roundings behind one output number: no layer below has a sum of more than V = 7 terms and
# then a dozen further operations, softmax included.
ROUNDINGS = 32
# Steps are powers of two, so that dividing by them does not round.
STEPS = tuple(2.0**-k for k in range(3, 8))
DIRECTIONS = 3
# A wrong term in a gradient is of the gradient's own size; the check sees far below that.
RESOLUTION = 1e-8

Backward = Callable[[Any, Any], tuple[Array, ...]]


@dataclass(frozen=True)
class Layer:
    """A forward from arrays to (result, saved), and its backward from (dy, saved)."""

    forward: Callable[..., tuple[Any, Any]]
    backward: Backward
    inputs: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Measurement:
    """A derivative along one direction: as claimed by a backward, and as measured."""

    of: str
    claimed: float
    measured: float
    bound: float

    @property
    def agrees(self) -> bool:
        return abs(self.claimed - self.measured) <= self.bound


LAYERS = {
    "linear": Layer(
        layers.linear, layers.linear_backward, {"x": (B, T, D), "weight": (D, D), "bias": (D,)}
    ),
    "layer_norm": Layer(
        layers.layer_norm,
        layers.layer_norm_backward,
        {"x": (B, T, D), "gain": (D,), "bias": (D,)},
    ),
    "gelu": Layer(
        layers.gelu, lambda dy, saved: (layers.gelu_backward(dy, saved),), {"x": (B, T, D)}
    ),
    "embed": Layer(
        lambda weight: layers.embed(TOKENS_BT, weight),
        lambda dy, saved: (layers.embed_backward(dy, saved),),
        {"weight": (V, D)},
    ),
    "add_positions": Layer(
        lambda x, weight: (layers.add_positions(x, weight), C),
        layers.add_positions_backward,
        {"x": (B, T, D), "weight": (C, D)},
    ),
    "rotate": Layer(
        lambda x: (layers.rotate(x, ROTATION_T2P), ROTATION_T2P),
        lambda dy, saved: (layers.rotate_backward(dy, saved),),
        {"x": (B, H, T, K)},
    ),
    "attention": Layer(
        layers.attention,
        layers.attention_backward,
        {"q": (B, H, T, K), "k": (B, H, T, K), "v": (B, H, T, K)},
    ),
    "cross_entropy": Layer(
        lambda logits: layers.cross_entropy(logits, TARGETS_BT),
        lambda dy, saved: (layers.cross_entropy_backward(float(dy), saved),),
        {"logits": (B, T, V)},
    ),
}


def directional_derivative(result: Callable[[float], Array], dy: Array) -> tuple[float, float]:
    """d/dh <dy, result(h)> at h = 0, and a bound on the error of that number.

    The central difference errs by c2 h² + c4 h⁴ + ..., and Richardson's table cancels one term
    per column. Truncation: the last column's change, which is the error of the column before.
    Rounding: each result is off by at most ROUNDINGS * u * max|y|, two of them are divided by
    2h, and the table multiplies that by no more than Π (4^j + 1)/(4^j - 1) < 2.
    """
    # The two results are subtracted before summing, and fsum is exact: neither adds rounding.
    column = [math.fsum((dy * (result(h) - result(-h))).ravel().tolist()) / (2 * h) for h in STEPS]
    for power in range(1, len(STEPS)):
        previous = column
        column = [
            (4**power * fine - coarse) / (4**power - 1) for coarse, fine in pairwise(previous)
        ]
    truncation = abs(column[-1] - previous[-1])
    largest = float(np.abs(dy).sum() * np.abs(result(0.0)).max())
    return column[-1], truncation + 2 * ROUNDINGS * UNIT_ROUNDOFF * largest / STEPS[-1]


def measure(layer: Layer, backward: Backward) -> list[Measurement]:
    """Hold one backward against the layer's forward, input by input, along random directions."""
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(size) for size in layer.inputs.values()]
    y, saved = layer.forward(*inputs)
    dy = random.standard_normal(np.shape(y))
    gradients = backward(dy, saved)
    assert len(gradients) == len(inputs)
    measurements = []
    for index, (name, size) in enumerate(layer.inputs.items()):
        for _ in range(DIRECTIONS):
            direction = random.standard_normal(size)
            direction /= np.linalg.norm(direction)

            def result(h: float, index: int = index, direction: Array = direction) -> Array:
                moved = [*inputs]
                moved[index] = inputs[index] + h * direction
                return np.asarray(layer.forward(*moved)[0])

            measured, bound = directional_derivative(result, dy)
            claimed = float((gradients[index] * direction).sum())
            measurements.append(Measurement(name, claimed, measured, bound))
    return measurements


def assert_exact(layer_name: str) -> None:
    """The layer's backward agrees, and the agreement means something for each of its inputs."""
    layer = LAYERS[layer_name]
    measurements = measure(layer, layer.backward)
    assert [wrong for wrong in measurements if not wrong.agrees] == []
    for name in layer.inputs:
        of_input = [measurement for measurement in measurements if measurement.of == name]
        size = max(abs(measurement.measured) for measurement in of_input)
        assert max(measurement.bound for measurement in of_input) < RESOLUTION * size


def test_linear_backward_is_the_derivative_of_its_forward() -> None:
    assert_exact("linear")


def test_layer_norm_backward_is_the_derivative_of_its_forward() -> None:
    assert_exact("layer_norm")


def test_gelu_backward_is_the_derivative_of_its_forward() -> None:
    assert_exact("gelu")


def test_embed_backward_is_the_derivative_of_its_forward() -> None:
    assert_exact("embed")


def test_add_positions_backward_is_the_derivative_of_its_forward() -> None:
    assert_exact("add_positions")


def test_rotate_backward_is_the_derivative_of_its_forward() -> None:
    assert_exact("rotate")


def test_attention_backward_is_the_derivative_of_its_forward() -> None:
    assert_exact("attention")


def test_cross_entropy_backward_is_the_derivative_of_its_forward() -> None:
    assert_exact("cross_entropy")


FAULTS: dict[str, tuple[str, Backward]] = {}


def fault(layer_name: str) -> Callable[[Backward], Backward]:
    """Plant the decorated backward in a layer, under its own name."""

    def plant(wrong_backward: Backward) -> Backward:
        FAULTS[wrong_backward.__name__] = (layer_name, wrong_backward)
        return wrong_backward

    return plant


@fault("linear")
def linear_weight_from_the_first_row_only(dy: Array, saved: layers.SavedLinear) -> Any:
    dx, _, dbias = layers.linear_backward(dy, saved)
    return dx, dy[0].T @ saved.x_BTI[0], dbias


@fault("linear")
def linear_weight_not_transposed(dy: Array, saved: layers.SavedLinear) -> Any:
    _, dweight, dbias = layers.linear_backward(dy, saved)
    return dy @ saved.weight_OI.T, dweight, dbias


@fault("linear")
def linear_bias_averaged_over_positions(dy: Array, saved: layers.SavedLinear) -> Any:
    dx, dweight, dbias = layers.linear_backward(dy, saved)
    return dx, dweight, dbias / (B * T)


@fault("layer_norm")
def layer_norm_without_the_mean_term(dy: Array, saved: layers.SavedLayerNorm) -> Any:
    dx, dgain, dbias = layers.layer_norm_backward(dy, saved)
    mean = (dy * saved.gain_D).mean(axis=-1, keepdims=True)
    return dx + mean * saved.inverse_std_BT1, dgain, dbias


@fault("layer_norm")
def layer_norm_without_the_variance_term(dy: Array, saved: layers.SavedLayerNorm) -> Any:
    _, dgain, dbias = layers.layer_norm_backward(dy, saved)
    dn = dy * saved.gain_D
    return (dn - dn.mean(axis=-1, keepdims=True)) * saved.inverse_std_BT1, dgain, dbias


@fault("layer_norm")
def layer_norm_that_forgets_its_gain(dy: Array, saved: layers.SavedLayerNorm) -> Any:
    return layers.layer_norm_backward(dy, saved._replace(gain_D=np.ones(D)))


@fault("layer_norm")
def layer_norm_that_reads_another_buffer(dy: Array, saved: layers.SavedLayerNorm) -> Any:
    output = saved.normal_BTD * saved.gain_D
    return layers.layer_norm_backward(dy, saved._replace(normal_BTD=output))


@fault("gelu")
def gelu_without_the_inner_slope(dy: Array, saved: layers.SavedGelu) -> Any:
    x, tanh = saved
    return (dy * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2)),)


@fault("gelu")
def gelu_derivative_of_the_exact_form(dy: Array, saved: layers.SavedGelu) -> Any:
    x = saved.x
    normal = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return (dy * (normal + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)),)


@fault("gelu")
def gelu_cubic_slope_without_its_factor_3(dy: Array, saved: layers.SavedGelu) -> Any:
    x, tanh = saved
    inner_slope = layers.GELU_SCALE * (1 + layers.GELU_CUBIC * x**2)
    return (dy * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * inner_slope),)


@fault("embed")
def embed_that_keeps_one_of_each_repeated_token(dy: Array, saved: layers.SavedEmbedding) -> Any:
    dweight = np.zeros((V, D))
    dweight[saved.tokens_BT] += dy
    return (dweight,)


@fault("add_positions")
def positions_from_the_first_row_only(dy: Array, context: int) -> Any:
    dx, dweight = layers.add_positions_backward(dy, context)
    dweight[:T] = dy[0]
    return dx, dweight


@fault("rotate")
def rotate_that_turns_forward_again(dy: Array, rotation: Array) -> Any:
    return (layers.rotate(dy, rotation),)


@fault("attention")
def attention_without_the_root_of_its_width(dy: Array, saved: layers.SavedAttention) -> Any:
    dq, dk, dv = layers.attention_backward(dy, saved)
    return dq * math.sqrt(K), dk * math.sqrt(K), dv


@fault("attention")
def attention_without_the_causal_mask(dy: Array, saved: layers.SavedAttention) -> Any:
    score = saved.q_BHTK @ saved.k_BHSK.swapaxes(-1, -2) / math.sqrt(K)
    p = np.exp(score) / np.exp(score).sum(axis=-1, keepdims=True)
    return layers.attention_backward(dy, saved._replace(p_BHTS=p))


@fault("attention")
def attention_without_the_softmax_row_sum(dy: Array, saved: layers.SavedAttention) -> Any:
    q, k, v, p = saved
    dscore = p * (dy @ v.swapaxes(-1, -2)) / math.sqrt(K)
    return dscore @ k, dscore.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dy


@fault("attention")
def attention_with_keys_of_the_first_row_and_head(dy: Array, saved: layers.SavedAttention) -> Any:
    k = np.broadcast_to(saved.k_BHSK[0, 0], saved.k_BHSK.shape)
    return layers.attention_backward(dy, saved._replace(k_BHSK=k))


@fault("attention")
def attention_values_through_untransposed_weights(dy: Array, saved: layers.SavedAttention) -> Any:
    dq, dk, _ = layers.attention_backward(dy, saved)
    return dq, dk, saved.p_BHTS @ dy


@fault("cross_entropy")
def cross_entropy_without_the_softmax_term(dy: Array, saved: layers.SavedCrossEntropy) -> Any:
    p = np.zeros_like(saved.p_BTV)
    return (layers.cross_entropy_backward(float(dy), saved._replace(p_BTV=p)),)


@fault("cross_entropy")
def cross_entropy_without_the_target_term(dy: Array, saved: layers.SavedCrossEntropy) -> Any:
    supervised = saved.targets_BT[..., None] != layers.IGNORED
    return (float(dy) * np.where(supervised, saved.p_BTV, 0) / saved.supervised,)


@fault("cross_entropy")
def cross_entropy_over_all_positions(dy: Array, saved: layers.SavedCrossEntropy) -> Any:
    return (layers.cross_entropy_backward(float(dy), saved._replace(supervised=B * T)),)


@fault("cross_entropy")
def cross_entropy_summed(dy: Array, saved: layers.SavedCrossEntropy) -> Any:
    return (layers.cross_entropy_backward(float(dy), saved._replace(supervised=1)),)


@fault("cross_entropy")
def cross_entropy_that_learns_masked_positions(dy: Array, saved: layers.SavedCrossEntropy) -> Any:
    masked = saved.targets_BT[..., None] == layers.IGNORED
    right = layers.cross_entropy_backward(float(dy), saved)
    return (np.where(masked, float(dy) * saved.p_BTV / saved.supervised, right),)


@fault("cross_entropy")
def cross_entropy_that_drops_the_last_logits(dy: Array, saved: layers.SavedCrossEntropy) -> Any:
    # A halving reduction over V = 7 sums 4 entries and loses 3.
    p = saved.p_BTV / saved.p_BTV[..., :4].sum(axis=-1, keepdims=True)
    return (layers.cross_entropy_backward(float(dy), saved._replace(p_BTV=p)),)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_detected(name: str) -> None:
    layer_name, wrong_backward = FAULTS[name]
    assert not all(
        measurement.agrees for measurement in measure(LAYERS[layer_name], wrong_backward)
    )


def test_every_layer_has_a_planted_fault() -> None:
    assert {layer_name for layer_name, _ in FAULTS.values()} == set(LAYERS)


@pytest.mark.parametrize("layer_name", LAYERS)
def test_every_gradient_that_is_wrong_by_a_millionth_is_detected(layer_name: str) -> None:
    layer = LAYERS[layer_name]
    for index, name in enumerate(layer.inputs):

        def almost(dy: Any, saved: Any, index: int = index) -> tuple[Array, ...]:
            gradients = [*layer.backward(dy, saved)]
            gradients[index] = gradients[index] * (1 + 1e-6)
            return tuple(gradients)

        wrong = {item.of for item in measure(layer, almost) if not item.agrees}
        assert wrong == {name}


@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.0, 1.0, 30.0]),
    masked=st.sampled_from([0.0, 0.5]),
)
def test_the_loss_gradient_keeps_its_invariants(seed: int, scale: float, masked: float) -> None:
    random = np.random.default_rng(seed)
    logits = scale * random.standard_normal((B, T, V))
    targets = np.where(random.random((B, T)) < masked, -100, random.integers(0, V, (B, T)))
    targets[0, 0] = 1
    loss, saved = layers.cross_entropy(logits, targets)
    dlogits = layers.cross_entropy_backward(1.0, saved)
    supervised = targets != -100
    # Each p is off by a few u of log p <= 2 * 30 * 6; V of them are added.
    rounding = V * 360 * 2 * UNIT_ROUNDOFF
    assert loss >= 0
    assert np.abs(dlogits.sum(axis=-1)).max() <= rounding
    assert np.all(dlogits[supervised, targets[supervised]] <= 0)
    assert np.all(dlogits[~supervised] == 0)
    assert np.count_nonzero(dlogits < 0) <= supervised.sum()


def test_logits_of_a_thousand_do_not_overflow() -> None:
    loss, saved = layers.cross_entropy(np.array([[[1000.0, 0.0, -1000.0]]]), np.array([[2]]))
    assert loss == 2000.0
    assert layers.cross_entropy_backward(1.0, saved).tolist() == [[[1.0, 0.0, -1.0]]]


def test_a_batch_without_a_supervised_token_is_refused() -> None:
    with pytest.raises(ValueError, match="found 6 targets that are all -100"):
        layers.cross_entropy(np.zeros((2, 3, V)), np.full((2, 3), -100))


@pytest.mark.parametrize("outside", [-1, V])
def test_a_target_outside_the_vocabulary_is_refused(outside: int) -> None:
    with pytest.raises(ValueError, match=f"every target between 0 and 6, found {outside}"):
        layers.cross_entropy(np.zeros((1, 2, V)), np.array([[0, outside]]))


@pytest.mark.parametrize("outside", [-100, V])
def test_a_token_outside_the_vocabulary_is_refused(outside: int) -> None:
    with pytest.raises(ValueError, match=f"every token between 0 and 6, found {outside}"):
        layers.embed(np.array([[0, outside]]), np.zeros((V, D)))


def test_a_rotated_product_depends_only_on_the_distance() -> None:
    random = np.random.default_rng(0)
    q, k = random.standard_normal((2, 1, 1, 1, K))
    rotation = layers.rotations(40, K)
    product = [
        float(
            layers.rotate(q, rotation[t : t + 1]).ravel()
            @ layers.rotate(k, rotation[t - 3 : t - 2]).ravel()
        )
        for t in range(3, 40)
    ]
    # An angle of up to 40 is off by u * 40, and K products of that are added.
    assert np.ptp(product) <= K * 2 * 40 * UNIT_ROUNDOFF * np.linalg.norm(q) * np.linalg.norm(k)
