"""The offset of each target from the position that predicts it: the next token is 1.

Where a row of the loss came from is found by sending position numbers through the very operations
that the logits went through; which token it is compared with, by content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lossleuth.findings.data import Alignment
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.padding import past_the_end
from lossleuth.tape.roles.roles import Roles, token_values
from lossleuth.tape.roles.row_places import row_places
from lossleuth.tape.roles.source_positions import target_distances
from lossleuth.tape.roles.supervised_rows import is_counted, target_values
from lossleuth.tape.window import Window

OFFSETS = range(-2, 4)
# Share of the classes by which a table of tokens may be larger or smaller, as one filled up is.
MAX_UNLIKE = 0.1
# Distances in the data are believed if one holds for this share of the targets and is not longer
# than this: an answer may stand a whole question after its place. Both picked by hand.
MIN_SHARE_OF_DISTANCE, MAX_DISTANCE = 0.9, 8


def alignment(window: Window, roles: Roles | None) -> Alignment:
    """Compare the targets of the loss with the tokens of the input."""
    try:
        found = supervision(window, roles)
    except CannotReplay as reason:
        return Alignment(None, {}, 0, 0, untested=str(reason))
    shares = found.offsets
    best = max(shares, key=lambda o: (shares[o], o == 1), default=None)
    if best is not None and (shares[best] <= 0.5 or not found.is_text):
        best = None
    targets = torch.unique(found.targets[found.counted])
    return Alignment(
        best,
        shares,
        int(found.counted.sum()),
        len(found.targets),
        time_axis=found.time_axis,
        tokens=found.tokens.numel(),
        distinct_tokens=len(torch.unique(found.tokens)),
        distinct_targets=len(targets),
        only_target=int(targets[0]) if len(targets) == 1 and _are_words(window, roles) else None,
    )


def _are_words(window: Window, roles: Roles | None) -> bool:
    """Whether the classes are about those of the table that tokens are looked up in."""
    if roles is None or not roles.vocabulary:
        return False
    operations = window.tape.operations
    tables = [window.tape.layouts[operations[at].inputs[0]].shape for at in roles.tokens_used]
    rows = [shape[0] for shape in tables if len(shape) > 1]
    return any(abs(size - roles.vocabulary) <= MAX_UNLIKE * roles.vocabulary for size in rows)


@dataclass(frozen=True)
class Supervision:
    """What each row of a loss is compared with, and the token position that it belongs to."""

    # Along the first axis texts, or time where `time_axis` is 0.
    tokens: Tensor
    # For each row its flat position among the tokens, its target, and whether it counts.
    places: Tensor
    targets: Tensor
    counted: Tensor
    # Whether these are some of the positions, in the other order than the tokens': content alone
    # does not show that.
    is_turned: bool = False
    # For each row, how far its target is behind its token in the data, where that is known.
    distances: Tensor | None = None

    @property
    def offsets(self) -> dict[int, float]:
        """For each offset the share of targets there: by position in the data, else by content."""
        if self.distances is None or not self.counted.any():
            return self.shares(self.time_axis)
        distances = self.distances[self.counted]
        most = int(distances.mode().values)
        near = [*OFFSETS, *([most] if abs(most) <= MAX_DISTANCE else ())]
        return {offset: float((distances == offset).double().mean()) for offset in near}

    @property
    def time_axis(self) -> int:
        """The time axis: the second, unless targets are tokens along the first alone."""
        along = {axis: self._along(axis) for axis in (0, 1)}
        return 0 if along[0] > 0.5 and along[0] > along[1] else 1

    @property
    def is_ordered(self) -> bool:
        """Whether targets are tokens before or after their own position: then time is known."""
        return max(self._along(0), self._along(1)) > 0.5

    @property
    def is_text(self) -> bool:
        """Whether targets are tokens around their own position, more often than by chance."""
        by_distance = self.distances is not None
        return by_distance or any(
            share > 0.5 for axis in (0, 1) for share in self._beyond_chance(axis).values()
        )

    def _along(self, axis: int) -> float:
        """The share that the best offset along an axis explains, if 0 explains less."""
        shares = self._beyond_chance(axis)
        best = max((share for offset, share in shares.items() if offset), default=0.0)
        return best if best > shares.get(0, 0.0) else 0.0

    def shares(self, axis: int, offsets: Sequence[int] = OFFSETS) -> dict[int, float]:
        """For each offset along an axis, the share of targets that are the token there."""
        return {
            offset: float((there == wanted).double().mean())
            for offset, there, wanted in self._pairs(axis, offsets)
        }

    def _beyond_chance(self, axis: int) -> dict[int, float]:
        """The same beyond what tokens and targets drawn apart would share; 1 is all.

        A handful of labels, or a text that is mostly padding, agrees with nearly anything.
        """
        found = {}
        for offset, there, wanted in self._pairs(axis):
            share = float((there == wanted).double().mean())
            size = int(max(int(there.max()), int(wanted.max()), 0)) + 1
            counts = [torch.bincount(each.clamp(min=0), minlength=size) for each in (there, wanted)]
            chance = float((counts[0] * counts[1]).sum()) / len(wanted) ** 2
            found[offset] = (share - chance) / (1 - chance) if chance < 1 else 0.0
        return found

    def _pairs(
        self, axis: int, offsets: Sequence[int] = OFFSETS
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Tokens at each offset along an axis, and the targets that they are compared with."""
        tokens, length = self.tokens, self.tokens.shape[1]
        at = [self.places // length, self.places % length]
        past = past_the_end(tokens if axis else tokens.t())[1]
        past = past if axis else past.t()
        for offset in offsets:
            there = list(at)
            there[axis] = at[axis] + offset
            inside = self.counted & (there[axis] >= 0) & (there[axis] < tokens.shape[axis])
            # What a text's last rows are asked for need not be among its tokens. Where hardly a
            # row is left without those, all are compared.
            within = inside.clone()
            within[inside] = ~past[there[0][inside], there[1][inside]]
            if 2 * int(within.sum()) >= int(inside.sum()):
                inside = within
            if inside.any():
                yield offset, tokens[there[0][inside], there[1][inside]], self.targets[inside]


def supervision(window: Window, roles: Roles | None) -> Supervision:
    """What the rows of the loss are compared with; CannotReplay if that is not known."""
    if roles is None:
        raise CannotReplay("no targets of a loss were found")
    key = ("supervision", roles.scores, roles.tokens, roles.targets)
    return window.once(key, lambda: _supervision(window, roles))


def _supervision(window: Window, roles: Roles) -> Supervision:
    if not roles.has_targets or (roles.logits is None and not roles.features):
        raise CannotReplay("no targets of a loss were found")
    tokens = token_values(window.tape, roles)
    if tokens is None:
        raise CannotReplay("no tokens behind the logits were found")
    places = row_places(window, roles, tokens)
    targets = target_values(window, roles)
    if len(places) != len(targets):
        raise CannotReplay("the number of targets is not the number of rows of logits")
    counted = is_counted(window, roles, targets)
    found = Supervision(tokens, places, targets, counted)
    found = _with_distances(window, roles, found)
    if found.is_text or 1 in tokens.shape or len(places) == len(tokens):
        return found
    # Perhaps the logits have time and batch the other way round.
    some = len(places) != tokens.numel()
    other = replace(found, places=turned(places, tokens), is_turned=some)
    return other if other.is_text else found


def _with_distances(window: Window, roles: Roles, found: Supervision) -> Supervision:
    """With the distances in the data, if one of them holds for nearly all that counts."""
    distances = target_distances(window, roles, found.places)
    if distances is None or not found.counted.any():
        return found
    counted = distances[found.counted]
    most = int(counted.mode().values)
    is_one = float((counted == most).double().mean()) >= MIN_SHARE_OF_DISTANCE
    return replace(found, distances=distances) if is_one and abs(most) <= MAX_DISTANCE else found


def turned(places: Tensor, tokens: Tensor) -> Tensor:
    """Flat positions of a grid, read as those of the grid with its axes exchanged.

    >>> turned(torch.arange(6), torch.zeros(2, 3)).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    rows, length = tokens.shape
    return (places % rows) * length + places // rows
