"""Are padding positions supervised?"""

from __future__ import annotations

from lossleuth.findings.data import Padding
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.alignment import supervision
from lossleuth.tape.roles.padding import padding_of
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.roles.supervised_rows import row_weights
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
    token, past = padding_of(tokens)
    supervised = int(found.counted.sum())
    if roles is not None and roles.scores is None and row_weights(window, roles) is None:
        why = "which targets count within a fused loss is not known"
        return Padding(None, 0.0, 0, supervised, untested=why)
    if token is None:
        return Padding(None, 0.0, 0, supervised)
    # The first padding token of a row may stand for its end, which is to be predicted.
    at_pad = past.reshape(-1)[places] & (found.targets == token)
    share = float(past.double().mean())
    return Padding(token, share, int((at_pad & found.counted).sum()), supervised)


PROBE = Probe(Padding, lambda a: padding(a.window, a.roles))
