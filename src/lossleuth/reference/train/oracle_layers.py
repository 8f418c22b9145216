"""The layers of the oracle: each a forward and its derivative, in numpy float64.

A forward returns its result and what its backward needs (`saved`). A backward takes dy, the
derivative of the loss with respect to that result, and returns the derivatives with respect to
the inputs, in their order. What is saved is never written to again: a buffer that is reused
between layers gives gradients that look healthy and are wrong.

Tensor names carry their shape, one letter per axis; `dx_BTD` is the loss's derivative by `x_BTD`:

    B  batch        T  position        V  vocabulary            P  pair of channels, K / 2
    D  model width  H  head            K  width of one head     I, O  input, output of a layer
    S  position that is looked at      C  longest context
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Tokens = NDArray[np.int64]

IGNORED = -100
LAYER_NORM_EPS = 1e-5
ROTARY_BASE = 10_000.0
GELU_SCALE = math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


class SavedLinear(NamedTuple):
    """What `linear` keeps: its input, and the weight the input met."""

    x_BTI: Array
    weight_OI: Array


def linear(x_BTI: Array, weight_OI: Array, bias_O: Array | None) -> tuple[Array, SavedLinear]:
    """y = x Wᵀ + b, at each position on its own.

    >>> linear(np.array([[[1.0, 2.0]]]), np.array([[3.0, 4.0]]), np.array([0.5]))[0].tolist()
    [[[11.5]]]
    """
    y_BTO = x_BTI @ weight_OI.T
    return y_BTO if bias_O is None else y_BTO + bias_O, SavedLinear(x_BTI, weight_OI)


def linear_backward(dy_BTO: Array, saved: SavedLinear) -> tuple[Array, Array, Array]:
    """dx = dy W, dW = Σ dyᵀ x, db = Σ dy: one weight serves every position, so they all add up.

    >>> _, saved = linear(np.array([[[1.0, 2.0]]]), np.array([[3.0, 4.0]]), None)
    >>> [gradient.tolist() for gradient in linear_backward(np.ones((1, 1, 1)), saved)]
    [[[[3.0, 4.0]]], [[1.0, 2.0]], [1.0]]
    """
    dx_BTI = dy_BTO @ saved.weight_OI
    dweight_OI = np.einsum("BTO,BTI->OI", dy_BTO, saved.x_BTI)
    return dx_BTI, dweight_OI, dy_BTO.sum(axis=(0, 1))


class SavedLayerNorm(NamedTuple):
    """What `layer_norm` keeps: the normalised input, 1/σ of each position, and the gain."""

    normal_BTD: Array
    inverse_std_BT1: Array
    gain_D: Array


def layer_norm(x_BTD: Array, gain_D: Array, bias_D: Array) -> tuple[Array, SavedLayerNorm]:
    """y = g · n + b with n = (x - μ) / σ, where μ and σ² + eps are taken over one position's D.

    >>> y_BTD, _ = layer_norm(np.array([[[1.0, 3.0]]]), np.ones(2), np.zeros(2))
    >>> y_BTD.round(4).tolist()
    [[[-1.0, 1.0]]]
    """
    centred_BTD = x_BTD - x_BTD.mean(axis=-1, keepdims=True)
    variance_BT1 = (centred_BTD**2).mean(axis=-1, keepdims=True)
    inverse_std_BT1 = 1 / np.sqrt(variance_BT1 + LAYER_NORM_EPS)
    normal_BTD = centred_BTD * inverse_std_BT1
    return normal_BTD * gain_D + bias_D, SavedLayerNorm(normal_BTD, inverse_std_BT1, gain_D)


def layer_norm_backward(dy_BTD: Array, saved: SavedLayerNorm) -> tuple[Array, Array, Array]:
    """dx = (dn - mean(dn) - n · mean(dn · n)) / σ with dn = g · dy.

    μ and σ move with x too: the two means take out of dn what would shift or stretch the whole
    position, because the layer's output does not change under either.

    >>> _, saved = layer_norm(np.array([[[1.0, 3.0, 8.0]]]), np.ones(3), np.zeros(3))
    >>> dx_BTD, _, _ = layer_norm_backward(np.array([[[1.0, 0.0, 0.0]]]), saved)
    >>> bool(abs(dx_BTD.sum()) < 1e-15)
    True
    """
    dn_BTD = dy_BTD * saved.gain_D
    shift_BT1 = dn_BTD.mean(axis=-1, keepdims=True)
    stretch_BT1 = (dn_BTD * saved.normal_BTD).mean(axis=-1, keepdims=True)
    dx_BTD = (dn_BTD - shift_BT1 - saved.normal_BTD * stretch_BT1) * saved.inverse_std_BT1
    return dx_BTD, (dy_BTD * saved.normal_BTD).sum(axis=(0, 1)), dy_BTD.sum(axis=(0, 1))


class SavedGelu(NamedTuple):
    """What `gelu` keeps: its input, and the tanh of the inner polynomial."""

    x: Array
    tanh: Array


def gelu(x: Array) -> tuple[Array, SavedGelu]:
    """y = x/2 · (1 + t) with t = tanh(√(2/π) · (x + 0.044715 x³)), for any shape.

    >>> gelu(np.array([-9.0, 0.0, 9.0]))[0].tolist()
    [-0.0, 0.0, 9.0]
    """
    tanh = np.tanh(GELU_SCALE * (x + GELU_CUBIC * x**3))
    return 0.5 * x * (1 + tanh), SavedGelu(x, tanh)


def gelu_backward(dy: Array, saved: SavedGelu) -> Array:
    """dx = dy · ((1 + t)/2 + x/2 · (1 - t²) · √(2/π) · (1 + 3 · 0.044715 x²)).

    >>> gelu_backward(np.ones(3), gelu(np.array([-9.0, 0.0, 9.0]))[1]).tolist()
    [0.0, 0.5, 1.0]
    """
    inner_slope = GELU_SCALE * (1 + 3 * GELU_CUBIC * saved.x**2)
    return dy * (0.5 * (1 + saved.tanh) + 0.5 * saved.x * (1 - saved.tanh**2) * inner_slope)


class SavedEmbedding(NamedTuple):
    """What `embed` keeps: which rows it read, and how many there are."""

    tokens_BT: Tokens
    vocabulary: int


def embed(tokens_BT: Tokens, weight_VD: Array) -> tuple[Array, SavedEmbedding]:
    """y = W[token]: each token is replaced by its row.

    >>> embed(np.array([[1, 1]]), np.array([[0.0], [7.0]]))[0].tolist()
    [[[7.0], [7.0]]]
    """
    _check_range("token", tokens_BT, weight_VD.shape[0])
    return weight_VD[tokens_BT], SavedEmbedding(tokens_BT, weight_VD.shape[0])


def embed_backward(dy_BTD: Array, saved: SavedEmbedding) -> Array:
    """dW[v] = Σ dy over the positions that hold token v.

    >>> _, saved = embed(np.array([[1, 1]]), np.zeros((2, 1)))
    >>> embed_backward(np.array([[[2.0], [3.0]]]), saved).tolist()
    [[0.0], [5.0]]
    """
    dweight_VD = np.zeros((saved.vocabulary, dy_BTD.shape[-1]))
    # `dweight[tokens] += dy` would keep one position of a repeated token and lose the others.
    np.add.at(dweight_VD, saved.tokens_BT, dy_BTD)
    return dweight_VD


def add_positions(x_BTD: Array, weight_CD: Array) -> Array:
    """y = x + W[:T]: every row of the batch receives the same learned positions.

    >>> add_positions(np.ones((1, 2, 1)), np.array([[10.0], [20.0], [30.0]])).tolist()
    [[[11.0], [21.0]]]
    """
    return x_BTD + weight_CD[: x_BTD.shape[1]]


def add_positions_backward(dy_BTD: Array, context: int) -> tuple[Array, Array]:
    """dx = dy and dW[t] = Σ_b dy; positions past T were not read, so theirs is zero.

    >>> add_positions_backward(np.ones((4, 2, 1)), context=3)[1].tolist()
    [[4.0], [4.0], [0.0]]
    """
    dweight_CD = np.zeros((context, dy_BTD.shape[-1]))
    dweight_CD[: dy_BTD.shape[1]] = dy_BTD.sum(axis=0)
    return dy_BTD, dweight_CD


def rotations(positions: int, head_width: int) -> Array:
    """Cosine and sine of the angle t · 10000^(-2p/K) of position t and pair p, as (T, 2, P).

    >>> rotations(positions=2, head_width=4).round(3).tolist()
    [[[1.0, 1.0], [0.0, 0.0]], [[0.54, 1.0], [0.841, 0.01]]]
    """
    frequency_P = ROTARY_BASE ** -(np.arange(0, head_width, 2) / head_width)
    angle_TP = np.outer(np.arange(positions), frequency_P)
    return np.stack((np.cos(angle_TP), np.sin(angle_TP)), axis=1)


def rotate(x_BHTK: Array, rotation_T2P: Array) -> Array:
    """Turn the plane of channels (p, p + K/2) by its position's angle.

    The product of a query and a key so turned depends only on how far apart they stand.

    >>> quarter_turn = np.array([[[0.0], [1.0]]])
    >>> rotate(np.array([[[[3.0, 4.0]]]]), quarter_turn).tolist()
    [[[[-4.0, 3.0]]]]
    """
    cos_TP, sin_TP = rotation_T2P[:, 0], rotation_T2P[:, 1]
    low_BHTP, high_BHTP = np.split(x_BHTK, 2, axis=-1)
    turned = (low_BHTP * cos_TP - high_BHTP * sin_TP, low_BHTP * sin_TP + high_BHTP * cos_TP)
    return np.concatenate(turned, axis=-1)


def rotate_backward(dy_BHTK: Array, rotation_T2P: Array) -> Array:
    """The derivative turns back by the same angle: a rotation's transpose is its inverse.

    >>> quarter_turn = np.array([[[0.0], [1.0]]])
    >>> rotate_backward(np.array([[[[-4.0, 3.0]]]]), quarter_turn).tolist()
    [[[[3.0, 4.0]]]]
    """
    return rotate(dy_BHTK, rotation_T2P * np.array([[1.0], [-1.0]]))


class SavedAttention(NamedTuple):
    """What `attention` keeps: queries, keys, values, and how much each position looks at which."""

    q_BHTK: Array
    k_BHSK: Array
    v_BHSK: Array
    p_BHTS: Array


def attention(q_BHTK: Array, k_BHSK: Array, v_BHSK: Array) -> tuple[Array, SavedAttention]:
    """y = P v with P = softmax(q kᵀ / √K), in each row and head on its own.

    Position t sees s ≤ t only. √K keeps the scores' variance at that of one channel, so that
    the softmax does not saturate as heads widen.

    >>> v = np.array([[[[1.0], [3.0]]]])
    >>> attention(np.zeros((1, 1, 2, 1)), np.zeros((1, 1, 2, 1)), v)[0].tolist()
    [[[[1.0], [2.0]]]]
    """
    T, K = q_BHTK.shape[-2:]
    score_BHTS = q_BHTK @ k_BHSK.swapaxes(-1, -2) / math.sqrt(K)
    score_BHTS = np.where(np.tri(T, dtype=bool), score_BHTS, -np.inf)
    p_BHTS = np.exp(score_BHTS - score_BHTS.max(axis=-1, keepdims=True))
    p_BHTS /= p_BHTS.sum(axis=-1, keepdims=True)
    return p_BHTS @ v_BHSK, SavedAttention(q_BHTK, k_BHSK, v_BHSK, p_BHTS)


def attention_backward(dy_BHTK: Array, saved: SavedAttention) -> tuple[Array, Array, Array]:
    """dv = Pᵀ dy, dP = dy vᵀ, ds = P · (dP - Σ_s P dP), dq = ds k / √K, dk = dsᵀ q / √K.

    No mask is needed here: P is exactly 0 where it was masked, and every term carries P.

    >>> _, saved = attention(np.ones((1, 1, 2, 1)), np.ones((1, 1, 2, 1)), np.ones((1, 1, 2, 1)))
    >>> dq, dk, dv = attention_backward(np.ones((1, 1, 2, 1)), saved)
    >>> dq.ravel().tolist(), dk.ravel().tolist(), dv.ravel().tolist()
    ([0.0, 0.0], [0.0, 0.0], [1.5, 0.5])
    """
    q_BHTK, k_BHSK, v_BHSK, p_BHTS = saved
    dv_BHSK = p_BHTS.swapaxes(-1, -2) @ dy_BHTK
    dp_BHTS = dy_BHTK @ v_BHSK.swapaxes(-1, -2)
    # Each row of P sums to 1, so a push common to the whole row moves nothing.
    common_BHT1 = (p_BHTS * dp_BHTS).sum(axis=-1, keepdims=True)
    dscore_BHTS = p_BHTS * (dp_BHTS - common_BHT1) / math.sqrt(q_BHTK.shape[-1])
    return dscore_BHTS @ k_BHSK, dscore_BHTS.swapaxes(-1, -2) @ q_BHTK, dv_BHSK


class SavedCrossEntropy(NamedTuple):
    """What `cross_entropy` keeps: predicted probabilities, targets, and how many counted."""

    p_BTV: Array
    targets_BT: Tokens
    supervised: int


def cross_entropy(logits_BTV: Array, targets_BT: Tokens) -> tuple[float, SavedCrossEntropy]:
    """Mean of ln Σ_v exp(z_v) - z_target over the N supervised positions (target not -100).

    >>> loss, saved = cross_entropy(np.zeros((1, 2, 4)), np.array([[3, -100]]))
    >>> f"{loss:.4f}", saved.supervised
    ('1.3863', 1)
    """
    supervised_BT = targets_BT != IGNORED
    count = int(supervised_BT.sum())
    if count == 0:
        raise ValueError(
            f"Expected at least one supervised target, found {targets_BT.size} targets that are "
            f"all {IGNORED}: their mean loss is 0/0. Leave at least one position unmasked."
        )
    _check_range("target", targets_BT[supervised_BT], logits_BTV.shape[-1])
    # The largest logit is taken out first: exp of a large logit would overflow.
    shifted_BTV = logits_BTV - logits_BTV.max(axis=-1, keepdims=True)
    log_p_BTV = shifted_BTV - np.log(np.exp(shifted_BTV).sum(axis=-1, keepdims=True))
    log_p_target_N = log_p_BTV[supervised_BT, targets_BT[supervised_BT]]
    saved = SavedCrossEntropy(np.exp(log_p_BTV), targets_BT, count)
    return float(-log_p_target_N.sum() / count), saved


def cross_entropy_backward(dloss: float, saved: SavedCrossEntropy) -> Array:
    """dz = dloss · (p - onehot(target)) / N where supervised, 0 elsewhere.

    >>> _, saved = cross_entropy(np.zeros((1, 2, 4)), np.array([[3, -100]]))
    >>> cross_entropy_backward(1.0, saved).tolist()
    [[[0.25, 0.25, 0.25, -0.75], [0.0, 0.0, 0.0, 0.0]]]
    """
    p_BTV, targets_BT, count = saved
    supervised_BT = targets_BT != IGNORED
    dlogits_BTV = np.where(supervised_BT[..., None], p_BTV, 0.0)
    dlogits_BTV[supervised_BT, targets_BT[supervised_BT]] -= 1
    return dlogits_BTV * (dloss / count)


def _check_range(what: str, index: Tokens, size: int) -> None:
    """Numpy reads a negative index from the end, so a wrong one would pass in silence."""
    outside = index[(index < 0) | (index >= size)]
    if outside.size:
        raise ValueError(
            f"Expected every {what} between 0 and {size - 1}, found {outside[0]}. "
            f"Encode the text with the vocabulary of this model, {size} entries."
        )
