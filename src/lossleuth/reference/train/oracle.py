"""The reference model a second time: numpy float64, its backward pass written by hand.

`model.py` leaves its gradients to autograd; this file derives them on paper. It shares no code
with that one, so when the two agree, neither is repeating the other's mistake; and because two
programs can still share a wrong formula, a test holds every layer against finite differences.

`forward` walks from the tokens to the loss and keeps every activation in a value of its own;
`backward` walks the same road from the logits down. The layers and the legend of the shape
letters are in `oracle_layers.py`. Dropout is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from lossleuth.reference.train.oracle_layers import (
    Array,
    SavedAttention,
    SavedCrossEntropy,
    SavedEmbedding,
    SavedGelu,
    SavedLayerNorm,
    SavedLinear,
    Tokens,
    add_positions,
    add_positions_backward,
    attention,
    attention_backward,
    cross_entropy,
    cross_entropy_backward,
    embed,
    embed_backward,
    gelu,
    gelu_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    rotate,
    rotate_backward,
    rotations,
)

Parameters = Mapping[str, Array]
Gradients = dict[str, Array]
Value = TypeVar("Value")


class Shape(Protocol):
    """The fields of `ModelShape` that decide which tensors exist and how they are joined."""

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""

    @property
    def context(self) -> int:
        """Longest sequence."""

    @property
    def layers(self) -> int:
        """How many blocks."""

    @property
    def heads(self) -> int:
        """Attention heads of one block."""

    @property
    def width(self) -> int:
        """Channels of the stream."""

    @property
    def positions(self) -> str:
        """Either "learned" or "rotary"."""

    @property
    def tied(self) -> bool:
        """Whether the output projection is the embedding itself."""


class SavedBlock(NamedTuple):
    """Activations of one block, in the order in which they were computed."""

    attention_norm: SavedLayerNorm
    qkv: SavedLinear
    rotation_T2P: Array | None
    attention: SavedAttention
    out: SavedLinear
    feed_norm: SavedLayerNorm
    up: SavedLinear
    gelu: SavedGelu
    down: SavedLinear


class SavedModel(NamedTuple):
    """Everything `backward` needs, and the logits for whoever wants to look at them."""

    shape: Shape
    embedding: SavedEmbedding
    blocks: tuple[SavedBlock, ...]
    final_norm: SavedLayerNorm
    output: SavedLinear
    logits_BTV: Array
    cross_entropy: SavedCrossEntropy


def parameter_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Name and size of every parameter, as `LanguageModel.named_parameters()` gives them.

    >>> from types import SimpleNamespace
    >>> shape = SimpleNamespace(vocabulary=5, context=4, layers=0, heads=2, width=8,
    ...                         positions="learned", tied=True)
    >>> list(parameter_shapes(shape))
    ['embedding.weight', 'position.weight', 'final_norm.weight', 'final_norm.bias']
    """
    D = shape.width
    sizes: dict[str, tuple[int, ...]] = {"embedding.weight": (shape.vocabulary, D)}
    if _is_learned(shape):
        sizes["position.weight"] = (shape.context, D)
    for name in (f"blocks.{layer}" for layer in range(shape.layers)):
        sizes |= _pair(f"{name}.attention_norm", (D,), (D,))
        sizes |= _pair(f"{name}.attention.qkv", (3 * D, D), (3 * D,))
        sizes |= _pair(f"{name}.attention.out", (D, D), (D,))
        sizes |= _pair(f"{name}.feed_norm", (D,), (D,))
        sizes |= _pair(f"{name}.up", (4 * D, D), (4 * D,))
        sizes |= _pair(f"{name}.down", (D, 4 * D), (D,))
    sizes |= _pair("final_norm", (D,), (D,))
    if not shape.tied:
        sizes["output.weight"] = (shape.vocabulary, D)
    return sizes


def forward(
    parameters: Parameters, tokens_BT: Tokens, targets_BT: Tokens, shape: Shape
) -> tuple[float, SavedModel]:
    """Mean cross-entropy of the model's predictions, and the activations on the way there.

    A network of zeros cannot tell one token from another, so its loss is exactly ln V:

    >>> from types import SimpleNamespace
    >>> shape = SimpleNamespace(vocabulary=5, context=4, layers=1, heads=2, width=8,
    ...                         positions="rotary", tied=True)
    >>> zeros = {name: np.zeros(size) for name, size in parameter_shapes(shape).items()}
    >>> loss, _ = forward(zeros, np.array([[0, 1, 2]]), np.array([[1, 2, -100]]), shape)
    >>> f"{loss:.6f}", f"{np.log(5):.6f}"
    ('1.609438', '1.609438')
    """
    parameters = _checked(parameters, tokens_BT, shape)
    x_BTD, embedding = embed(tokens_BT, parameters["embedding.weight"])
    rotation_T2P = None
    if _is_learned(shape):
        x_BTD = add_positions(x_BTD, parameters["position.weight"])
    else:
        rotation_T2P = rotations(tokens_BT.shape[1], shape.width // shape.heads)
    blocks = []
    for layer in range(shape.layers):
        x_BTD, block = _block(parameters, f"blocks.{layer}", x_BTD, shape.heads, rotation_T2P)
        blocks.append(block)
    n_BTD, final_norm = layer_norm(x_BTD, *_of(parameters, "final_norm"))
    output_VD = parameters["embedding.weight" if shape.tied else "output.weight"]
    logits_BTV, output = linear(n_BTD, output_VD, None)
    loss, entropy = cross_entropy(logits_BTV, targets_BT)
    saved = SavedModel(shape, embedding, tuple(blocks), final_norm, output, logits_BTV, entropy)
    return loss, saved


def backward(saved: SavedModel) -> Gradients:
    """Derivative of the loss by every parameter, under the parameter's name.

    A network of zeros is dead: the exact gradient is 0 everywhere, and no rate can train it.

    >>> from types import SimpleNamespace
    >>> shape = SimpleNamespace(vocabulary=5, context=4, layers=1, heads=2, width=8,
    ...                         positions="rotary", tied=True)
    >>> zeros = {name: np.zeros(size) for name, size in parameter_shapes(shape).items()}
    >>> _, saved = forward(zeros, np.array([[0, 1, 2]]), np.array([[1, 2, -100]]), shape)
    >>> sum(float(abs(gradient).sum()) for gradient in backward(saved).values())
    0.0
    """
    gradients: Gradients = {}
    dlogits_BTV = cross_entropy_backward(1.0, saved.cross_entropy)
    dn_BTD, doutput_VD, _ = linear_backward(dlogits_BTV, saved.output)
    dx_BTD, dgain_D, dbias_D = layer_norm_backward(dn_BTD, saved.final_norm)
    gradients |= _pair("final_norm", dgain_D, dbias_D)
    for layer in reversed(range(len(saved.blocks))):
        dx_BTD, of_block = _block_backward(dx_BTD, f"blocks.{layer}", saved.blocks[layer])
        gradients |= of_block
    if _is_learned(saved.shape):
        dx_BTD, gradients["position.weight"] = add_positions_backward(dx_BTD, saved.shape.context)
    dembedding_VD = embed_backward(dx_BTD, saved.embedding)
    if saved.shape.tied:
        # One tensor in two places: its derivative is the sum of both.
        dembedding_VD = dembedding_VD + doutput_VD
    else:
        gradients["output.weight"] = doutput_VD
    gradients["embedding.weight"] = dembedding_VD
    return gradients


def _block(
    parameters: Parameters, name: str, x_BTD: Array, heads: int, rotation_T2P: Array | None
) -> tuple[Array, SavedBlock]:
    """x + attention(norm(x)), then x + feed_forward(norm(x)): each half adds to what it reads."""
    n_BTD, attention_norm = layer_norm(x_BTD, *_of(parameters, f"{name}.attention_norm"))
    qkv_BTE, qkv = linear(n_BTD, *_of(parameters, f"{name}.attention.qkv"))
    q_BHTK, k_BHTK, v_BHTK = _split_heads(qkv_BTE, 3, heads)
    if rotation_T2P is not None:
        q_BHTK, k_BHTK = rotate(q_BHTK, rotation_T2P), rotate(k_BHTK, rotation_T2P)
    y_BHTK, attended = attention(q_BHTK, k_BHTK, v_BHTK)
    a_BTD, out = linear(_join_heads(y_BHTK), *_of(parameters, f"{name}.attention.out"))
    x_BTD = x_BTD + a_BTD
    n_BTD, feed_norm = layer_norm(x_BTD, *_of(parameters, f"{name}.feed_norm"))
    h_BTF, up = linear(n_BTD, *_of(parameters, f"{name}.up"))
    h_BTF, activation = gelu(h_BTF)
    f_BTD, down = linear(h_BTF, *_of(parameters, f"{name}.down"))
    saved = SavedBlock(
        attention_norm=attention_norm,
        qkv=qkv,
        rotation_T2P=rotation_T2P,
        attention=attended,
        out=out,
        feed_norm=feed_norm,
        up=up,
        gelu=activation,
        down=down,
    )
    return x_BTD + f_BTD, saved


def _block_backward(dx_BTD: Array, name: str, saved: SavedBlock) -> tuple[Array, Gradients]:
    """Both halves backwards; x + f(x) passes dx on unchanged and adds what comes through f."""
    gradients: Gradients = {}
    dh_BTF, *dparameters = linear_backward(dx_BTD, saved.down)
    gradients |= _pair(f"{name}.down", *dparameters)
    dn_BTD, *dparameters = linear_backward(gelu_backward(dh_BTF, saved.gelu), saved.up)
    gradients |= _pair(f"{name}.up", *dparameters)
    through_BTD, *dparameters = layer_norm_backward(dn_BTD, saved.feed_norm)
    gradients |= _pair(f"{name}.feed_norm", *dparameters)
    dx_BTD = dx_BTD + through_BTD

    heads = saved.attention.q_BHTK.shape[1]
    dy_BTD, *dparameters = linear_backward(dx_BTD, saved.out)
    gradients |= _pair(f"{name}.attention.out", *dparameters)
    (dy_BHTK,) = _split_heads(dy_BTD, 1, heads)
    dq_BHTK, dk_BHTK, dv_BHTK = attention_backward(dy_BHTK, saved.attention)
    if saved.rotation_T2P is not None:
        dq_BHTK = rotate_backward(dq_BHTK, saved.rotation_T2P)
        dk_BHTK = rotate_backward(dk_BHTK, saved.rotation_T2P)
    dn_BTD, *dparameters = linear_backward(_join_heads(dq_BHTK, dk_BHTK, dv_BHTK), saved.qkv)
    gradients |= _pair(f"{name}.attention.qkv", *dparameters)
    through_BTD, *dparameters = layer_norm_backward(dn_BTD, saved.attention_norm)
    gradients |= _pair(f"{name}.attention_norm", *dparameters)
    return dx_BTD + through_BTD, gradients


def _split_heads(x_BTE: Array, parts: int, heads: int) -> tuple[Array, ...]:
    """Cut the channels into equal parts (queries, keys, values), and each part into heads."""
    B, T, E = x_BTE.shape
    x_BTNHK = x_BTE.reshape(B, T, parts, heads, E // (parts * heads))
    return tuple(x_BTNHK[:, :, part].transpose(0, 2, 1, 3) for part in range(parts))


def _join_heads(*parts_BHTK: Array) -> Array:
    """The inverse of `_split_heads`; as both only move numbers, also its derivative."""
    B, H, T, K = parts_BHTK[0].shape
    parts = [part_BHTK.transpose(0, 2, 1, 3).reshape(B, T, H * K) for part_BHTK in parts_BHTK]
    return np.concatenate(parts, axis=-1)


def _of(parameters: Parameters, name: str) -> tuple[Array, Array]:
    """Weight and bias of one layer."""
    return parameters[f"{name}.weight"], parameters[f"{name}.bias"]


def _pair(name: str, weight: Value, bias: Value) -> dict[str, Value]:
    """Something about the weight and the bias of one layer, under their full names."""
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def _is_learned(shape: Shape) -> bool:
    """Learned positions, or else rotary ones; there is no third kind."""
    if shape.positions not in ("learned", "rotary"):
        raise ValueError(
            f'Expected positions "learned" or "rotary", found "{shape.positions}". '
            "Name one of the two in the model's shape."
        )
    return shape.positions == "learned"


def _checked(parameters: Parameters, tokens_BT: Tokens, shape: Shape) -> Parameters:
    """The parameters in float64, once their names and sizes are those of the shape."""
    if tokens_BT.shape[1] > shape.context:
        raise ValueError(
            f"Expected at most {shape.context} tokens in a row, found {tokens_BT.shape[1]}. "
            "Cut the text, or build the model with a longer context."
        )
    expected = parameter_shapes(shape)
    found = {name: np.shape(value) for name, value in parameters.items()}
    for name in expected | found:
        if expected.get(name) != found.get(name):
            raise ValueError(
                f"Expected {name} with shape {expected.get(name)}, found {found.get(name)}. "
                "Pass the named parameters of a model that was built from this shape."
            )
    return {name: np.asarray(value, dtype=np.float64) for name, value in parameters.items()}
