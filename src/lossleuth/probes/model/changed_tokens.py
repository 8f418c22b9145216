"""The forward pass of a recorded step with other tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.probes.model.running_statistics import (
    Inputs,
    RunningStatistics,
    running_statistics,
)
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Each, Replay
from lossleuth.tape.roles.alignment import Supervision, supervision, turned
from lossleuth.tape.roles.roles import Roles, token_values
from lossleuth.tape.roles.row_places import row_places
from lossleuth.tape.roles.supervised_rows import rows_of
from lossleuth.tape.tape import Operation
from lossleuth.tape.window import Window

# A row that moves by less than this share of the logits' spread stays where it is: float64 gives
# exactly 0 or rounding.
STILL = 1e-9
# The rounding floor, in units of the last digit of the logits. Picked by hand: other tokens may
# change how a kernel splits its work, and so the order of its sums.
ROUNDING_FLOOR_ULPS = 1e4
# A logit that is so far below the largest of its row stands for a class that is masked.
MASKED = 1e6
# Texts whose order is looked for: a replay each.
MAX_REORDERED = 64


@dataclass
class ChangedTokens:
    """Rows of logits as a function of the tokens, which are a row for each text."""

    window: Window
    roles: Roles
    # The tokens as the program has them: texts along the first axis, or time.
    grid: Tensor
    time_axis: int
    # For each row of logits: its text, its position, whether it is supervised, its target.
    texts: Tensor
    times: Tensor
    counted: Tensor
    targets: Tensor | None
    # Whether it is known which row is of which text: by content, by effect, or one for each.
    texts_known: bool = True
    # What is held as it was: statistics of the batch that are kept for later.
    statistics: RunningStatistics | None = None
    # Operations that ran in less than float64.
    narrow: list[Operation] = field(default_factory=list)

    @property
    def tokens(self) -> Tensor:
        """The tokens, a row for each text."""
        return self.grid if self.time_axis else self.grid.t()

    @property
    def floor(self) -> float:
        """What rounding may do to logits, as a share of their spread, by what ran so far.

        Some kernels do not support float64; then their own precision sets it.
        """
        return ROUNDING_FLOOR_ULPS * 2.0 ** (-23 if self.narrow else -52)

    def rows(self, tokens: Tensor, others: Inputs | None = None) -> Tensor:
        """The rows of logits, or of the features that logits are made of, with these tokens.

        `others` are further tensors that are changed where operations use them.
        """
        replay = self._replay()
        inputs, each = self._inputs(tokens)
        inputs = inputs | (others or {})
        roles = self.roles
        if roles.scores is not None:
            found = rows_of(replay, roles, inputs=inputs, each=each)
        else:
            assert roles.features is not None
            number, at = roles.features.factor, roles.features.taken_at
            made = replay.run([number], before=at, inputs=inputs, each=each)[number]
            found = made.reshape(-1, made.shape[-1])
        self.narrow.extend(replay.narrow)
        return found.detach()

    def losses(self, rows: Tensor, kept: Tensor) -> Tensor | None:
        """The cross-entropy of some rows; None if that cannot be said."""
        weight = self.roles.output_weight
        if self.targets is None or (self.roles.scores is None and weight is None):
            return None
        chosen = rows[kept]
        if self.roles.scores is None and weight is not None:
            chosen = chosen @ self.window.tape.value(weight).detach().to(rows.dtype).t()
        return F.cross_entropy(chosen, self.targets[kept].long(), reduction="none")

    def replay(self, tokens: Tensor, each: Each) -> None:
        """Replay up to the logits with these tokens, operation by operation."""
        roles = self.roles
        wanted = [part.logits for part in roles.parts if part.logits is not None]
        if not wanted and roles.features is not None:
            wanted = [roles.features.number]
        replay = self._replay()
        inputs, hold = self._inputs(tokens)

        def both(*given: Any) -> None:
            if hold is not None:
                hold(*given)
            each(*given)

        replay.run(wanted, before=roles.run.at, inputs=inputs, each=both)

    def _replay(self) -> Replay:
        # Choices are those of the recording, as a router's are: what the program did with them in
        # Python, such as splitting by counts, is on the tape as it was.
        return Replay(self.window.tape, gradients=False)

    def _inputs(self, tokens: Tensor) -> tuple[Inputs, Each | None]:
        """What a replay with these tokens is given."""
        changed: Inputs = {self._number: self._swap(tokens)}
        if self.statistics is None:
            return changed, None
        held, each = self.statistics.held()
        return held | changed, each

    @property
    def _number(self) -> int:
        assert self.roles.tokens is not None
        return self.roles.tokens

    def _swap(self, tokens: Tensor) -> Callable[[int, Tensor], Tensor]:
        given = tokens if self.time_axis else tokens.t()

        def swap(number: int, there: Tensor) -> Tensor:
            if number not in self.roles.tokens_used:
                return there
            return given.reshape(there.shape).to(there.dtype)

        return swap


def changed_tokens(window: Window, roles: Roles) -> ChangedTokens:
    """The step as a function of its tokens; CannotReplay if it is none."""
    if roles.scores is None and roles.features is None:
        raise CannotReplay("no logits that depend on tokens were found")
    found = _supervision(window, roles)
    wanted = [part.scores for part in roles.parts if part.scores is not None]
    if not wanted and roles.features is not None:
        wanted = [roles.features.factor]
    statistics = running_statistics(window.tape, wanted, roles.run.at)

    def oriented(found: Supervision, time_axis: int) -> ChangedTokens:
        return replace(_oriented(window, roles, found, time_axis), statistics=statistics)

    return _either_way(found, oriented)


def step_to_change(window: Window, roles: Roles | None) -> ChangedTokens:
    """The same, found once for each recorded step; CannotReplay if it has no texts."""
    if roles is None or roles.tokens is None:
        raise CannotReplay("no logits that depend on tokens were found")
    key = ("changed_tokens", roles.scores, roles.tokens)
    step = window.once(key, lambda: changed_tokens(window, roles))
    if step.tokens.shape[1] < 2 or not len(step.texts):
        raise CannotReplay("the tokens are not a batch of sequences")
    return step


def _either_way(
    found: Supervision, oriented: Callable[[Supervision, int], ChangedTokens]
) -> ChangedTokens:
    """With texts along the axis that they seem to be along."""
    step = oriented(found, found.time_axis)
    # Windows that follow each other are a text too, down their last column.
    in_column = not found.time_axis and len(torch.unique(step.texts)) == 1
    by_content = found.is_ordered and not in_column and not found.is_turned
    if by_content or 1 in found.tokens.shape:
        return step
    # Content does not tell texts from time: by effect, a change of some texts moves theirs alone.
    others = [oriented(found, 1 if in_column else 0)]
    order = replace(found, places=turned(found.places, found.tokens))
    others.append(oriented(order, 1))
    if _keeps_texts_apart(step):
        return step
    apart = next((other for other in others if _keeps_texts_apart(other)), None)
    one_each = len(step.texts) == len(step.tokens)
    return apart or _reordered(step) or replace(step, texts_known=one_each)


def _reordered(step: ChangedTokens) -> ChangedTokens | None:
    """The same where the program looks texts up in another order than that of its logits.

    Such as by length. Each text moves rows of its own then, and these are asked for its tokens.
    """
    tokens, length = step.tokens, step.tokens.shape[1]
    if step.targets is None or not 1 < len(tokens) <= MAX_REORDERED:
        return None
    before = step.rows(tokens)
    still = STILL * spread(before)
    texts = torch.full_like(step.texts, -1)
    for text in range(len(tokens)):
        changed = tokens.clone()
        changed[text] = others_than(tokens, tokens[text])
        moved = moves(step.rows(changed), before) > still
        if bool((texts[moved] >= 0).any()):
            return None
        texts[moved] = text
    # Rows that nothing moves, such as padding, stay where they are.
    found = replace(step, texts=torch.where(texts >= 0, texts, step.texts))

    def explained(one: ChangedTokens) -> float:
        assert one.targets is not None
        inside = one.counted & (one.times < length - 1)
        following = tokens[one.texts[inside], one.times[inside] + 1]
        return float((following == one.targets[inside]).double().mean()) if inside.any() else 0.0

    return found if explained(found) > max(0.5, explained(step)) else None


def others_than(tokens: Tensor, present: Tensor) -> Tensor:
    """For each token another one that occurs in the batch."""
    known = torch.unique(tokens)
    if len(known) < 2:
        raise CannotReplay("all tokens of the batch are the same")
    place = torch.searchsorted(known, present.contiguous())
    far: Tensor = known[(place + 1 + len(known) // 2) % len(known)]
    return torch.where(far != present, far, known[(place + 1) % len(known)])


def moves(rows: Tensor, before: Tensor) -> Tensor:
    """How far each row has moved; a class that is masked before and after has not."""
    return torch.where(rows == before, 0.0, rows - before).abs().amax(-1)


def spread(rows: Tensor) -> float:
    """The standard deviation of rows, without classes that are masked; 1 if there is none."""
    return deviation(rows) or 1.0


def deviation(rows: Tensor) -> float:
    """The same as it is. A class is masked by the lowest number that there is, say."""
    there = rows[rows > rows.amax(-1, keepdim=True) - MASKED]
    return float(there.std()) if len(there) > 1 else math.nan


def half_changed(tokens: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Other tokens in every second text, and which texts those are."""
    chosen = torch.arange(len(tokens)) % 2 == half
    changed = tokens.clone()
    changed[chosen] = others_than(tokens, tokens[chosen])
    return changed, chosen


def _oriented(window: Window, roles: Roles, found: Supervision, time_axis: int) -> ChangedTokens:
    length = found.tokens.shape[1]
    first, second = found.places // length, found.places % length
    return ChangedTokens(
        window=window,
        roles=roles,
        grid=found.tokens,
        time_axis=time_axis,
        texts=first if time_axis else second,
        times=second if time_axis else first,
        counted=found.counted,
        targets=found.targets if roles.has_targets else None,
    )


def _supervision(window: Window, roles: Roles) -> Supervision:
    """What is supervised; every row, if there are no targets."""
    if roles.has_targets:
        try:
            return supervision(window, roles)
        except CannotReplay:
            if roles.scores is None:
                raise
    tokens = token_values(window.tape, roles)
    if tokens is None:
        raise CannotReplay("no logits that depend on tokens were found")
    places = row_places(window, roles, tokens)
    every = torch.ones(len(places), dtype=torch.bool)
    return Supervision(tokens, places, torch.full((len(places),), -1), every)


def _keeps_texts_apart(step: ChangedTokens) -> bool:
    tokens = step.tokens
    if len(tokens) < 2:
        return False
    before = step.rows(tokens)
    changed, chosen = half_changed(tokens, 0)
    after, kept = step.rows(changed), ~chosen[step.texts]
    moved = moves(after, before) > STILL * spread(before)
    if not bool((moved & kept).any()):
        return bool(moved.any())
    return are_classes(before, after, kept, chosen)


def are_classes(base: Tensor, rows: Tensor, kept: Tensor, chosen: Tensor) -> bool:
    """Whether texts are what is chosen among, as in a contrastive loss: no other class moves."""
    classes = base.shape[1]
    if classes < 2 or len(chosen) % classes:
        return False
    same = ~chosen.reshape(-1, classes).any(0)
    return bool(same.any()) and not bool(moves(rows[:, same], base[:, same])[kept].any())
