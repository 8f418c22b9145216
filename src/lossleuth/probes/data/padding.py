"""Are padding positions supervised?

Padding is known by its looks: rows end in runs of one token, of different lengths, and that token
hardly occurs anywhere else.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.findings.data import Padding
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.alignment import supervision
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.window import Window


def padding(window: Window, roles: Roles | None) -> Padding:
    """Find the padding, then check whether its targets are supervised."""
    try:
        found = supervision(window, roles)
    except CannotReplay as reason:
        return Padding(None, 0.0, 0, 0, untested=str(reason))
    tokens, length = found.tokens, found.tokens.shape[1]
    places = found.places
    if not found.time_axis:
        tokens = tokens.t()
        places = (places % length) * tokens.shape[1] + places // length
    if len(tokens) < 2:
        return Padding(None, 0.0, 0, 0, untested="the tokens are a single text")
    if not found.is_text:
        return Padding(None, 0.0, 0, 0, untested="the targets are not tokens of the text")
    token, past = past_the_end(tokens)
    supervised = int(found.counted.sum())
    if token is None:
        return Padding(None, 0.0, 0, supervised)
    # The first padding token of a row may stand for its end, which is to be predicted.
    at_pad = past.reshape(-1)[places] & (found.targets == token)
    share = float(past.double().mean())
    return Padding(token, share, int((at_pad & found.counted).sum()), supervised)


def past_the_end(tokens: Tensor) -> tuple[int | None, Tensor]:
    """The padding token, and the positions from which on there is nothing else."""
    last = tokens[:, -1]
    values, counts = torch.unique(last, return_counts=True)
    token = int(values[counts.argmax()])
    is_token = tokens == token
    trailing = is_token.flip(1).int().cumprod(1).flip(1).bool()
    lengths = trailing.sum(1)
    inside = int((is_token & ~trailing).sum())
    runs = int((lengths >= 2).sum())
    varied = len(torch.unique(lengths)) > 1
    rare_inside = inside <= 0.02 * tokens.numel()
    if runs * 2 < len(tokens) or not varied or not rare_inside:
        return None, torch.zeros_like(is_token)
    return token, trailing


PROBE = Probe(Padding, lambda a: padding(a.window, a.roles))
