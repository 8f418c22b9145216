"""Operations that a replay computes in another way, with the same result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import short_name
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.torch_internals import OpOverload, packet_of, schema_of

Arguments = dict[str, Any]


def named_arguments(
    operation: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Arguments:
    """Arguments by their names in the schema, with defaults filled in."""
    found: Arguments = {}
    for position, argument in enumerate(schema_of(operation).arguments):
        if position < len(args):
            found[argument.name] = args[position]
        elif argument.name in kwargs:
            found[argument.name] = kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value
    return found


def attention(given: Arguments) -> Tensor:
    """Softmax attention written out: the fused kernels have no float64 derivative."""
    if given.get("dropout_p"):
        raise CannotReplay("dropout inside a fused attention kernel")
    query, key, value = given["query"], given["key"], given["value"]
    mask = given.get("attn_mask", given.get("attn_bias"))
    if key.shape[-3] != query.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(times, -3) for x in (key, value))
    scale = given.get("scale")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    shape = (*query.shape[:-1], key.shape[-2])
    # All heads in one axis: `matmul` would copy what is transposed.
    one_axis = [x.flatten(0, -3) for x in (query, key, value)]
    scores = torch.bmm(one_axis[0] * scale, one_axis[1].transpose(1, 2))
    if given.get("is_causal"):
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores.masked_fill_(~allowed, float("-inf"))
    if mask is None:
        mixed = torch.bmm(torch.softmax(scores, -1), one_axis[2])
        return mixed.view(*shape[:-1], value.shape[-1])
    scores, is_choice = scores.view(shape), mask.dtype == torch.bool
    scores = scores.masked_fill(~mask, float("-inf")) if is_choice else scores + mask
    # A query that is masked everywhere gets zeros from the fused kernels, not NaN. Its gradient
    # must not pass through the softmax of an empty row.
    nowhere = torch.isneginf(scores).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(nowhere, 0.0), -1)
    return torch.matmul(weights.masked_fill(nowhere, 0.0), value)


def gathered(given: Arguments, indices: Tensor) -> Tensor:
    """The values at the recorded indices."""
    source, dim = given["self"], given.get("dim", -1)
    if source.dim() == 0:
        return torch.as_tensor(source)
    dim = -1 if dim is None else dim
    keeps = indices.dim() == source.dim()
    places = indices if keeps else indices.unsqueeze(dim)
    values = torch.gather(source, dim, places)
    return values if keeps else values.squeeze(dim)


def half_to_float(operation: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Drop the `half_to_float` flag of a softmax whose input is no half precision."""
    widens = short_name(operation) in ("_softmax", "_log_softmax") and args[0].dtype.itemsize > 2
    return (*args[:2], False) if widens and len(args) == 3 else args


def functional(operation: OpOverload) -> Callable[..., Any] | None:
    """The variant that returns its result, of an operation that writes it to `out`."""
    packet = packet_of(operation)
    # Types beside names: add.Tensor and add.Scalar differ in nothing else.
    wanted = [(a.name, str(a.type)) for a in schema_of(operation).arguments if not a.is_out]
    for name in packet.overloads():
        candidate = getattr(packet, name)
        schema = schema_of(candidate)
        found = [(a.name, str(a.type)) for a in schema.arguments]
        if not schema.is_mutable and found == wanted:
            return candidate  # type: ignore[no-any-return]  # torch types overloads as Any
    return None
