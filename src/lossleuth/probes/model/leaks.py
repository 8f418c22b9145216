"""Do the logits depend on later positions, on other rows, or not on the input at all?

Tokens are changed where the program looks them up, the step is replayed in float64, and the
logits are compared. In a sound model a change at one position leaves every earlier position and
every other text exactly as it was. What a leak is worth is measured too: the loss of a position
whose later tokens, or whose neighbours in the batch, are replaced by others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lossleuth.findings.model import Leaks
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.model.changed_tokens import (
    ChangedTokens,
    are_classes,
    deviation,
    half_changed,
    moves,
    others_than,
    spread,
    step_to_change,
)
from lossleuth.probes.model.constant_input import constant_input
from lossleuth.probes.model.leak_lines import (
    batch_leak_place,
    comes_through_a_code,
    future_leak_place,
    lost_input_place,
    lost_past_place,
)
from lossleuth.probes.model.position_mixers import mixes_positions
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.alignment import alignment
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.roles.tokens import unused_tokens
from lossleuth.tape.window import Window

# Replays with one token of each text changed, and with the later part of each text replaced.
CHANGES, REPLACEMENTS = 4, 6
# Distances at which is looked for what comes before a prediction, beside the nearest.
BACKWARD = 4


def leaks(window: Window, roles: Roles | None) -> Leaks:
    """Change tokens and see which logits move."""
    if roles is not None and roles.scores is not None and roles.tokens is None:
        dead = [i for i, g in roles.run.after.items() if g is None or not bool(g.any())]
        if unused_tokens(window.tape, roles.run.at, dead) is not None:
            # Tokens are looked up, and nothing on the way to the logits takes what was found.
            return Leaks(None, None, 0.0, 0.0, whole=0.0)
    try:
        return _measured(step_to_change(window, roles))
    except CannotReplay as reason:
        return Leaks(None, None, None, None, untested=str(reason))


@dataclass
class _Seen:
    """The largest moves of logits, by where they are from the changed token."""

    before: float = 0.0
    # Changed tokens with a supervised position before them, and of how many the nearest moved.
    asked: int = 0
    moved_nearest: int = 0
    at: float | None = None
    after: float | None = None
    # Positions from a changed token to the last that moved.
    reach: int | None = None

    def add(self, step: ChangedTokens, moved: Tensor, positions: Tensor, floor: float) -> None:
        """Count the moves of one replay, in which each text has another token at its position."""
        distance = step.times - positions[step.texts]
        # Positions that are not supervised, such as a prefix, may see everything.
        earlier = moved[(distance < 0) & step.counted]
        self.before = max(self.before, _largest(earlier) or 0.0)
        self._add_nearest(step, moved > floor, distance)
        self.at = _larger(self.at, _largest(moved[distance == 0]))
        self.after = _larger(self.after, _largest(moved[distance > 0]))
        reached = distance[(moved > floor) & (distance >= 0)]
        if len(reached):
            self.reach = max(self.reach or 0, int(reached.max()))

    def _add_nearest(self, step: ChangedTokens, moved: Tensor, distance: Tensor) -> None:
        """Look at the last supervised position of each text before its changed token."""
        before = (distance < 0) & step.counted
        for text in torch.unique(step.texts[before]):
            mine = before & (step.texts == text)
            nearest = mine & (distance == distance[mine].max())
            self.asked += 1
            self.moved_nearest += bool(moved[nearest].any())


def _measured(step: ChangedTokens) -> Leaks:
    tokens = step.tokens
    base = step.rows(tokens)
    unit = spread(base)
    batch = batch_harm = batch_noise = None
    if len(tokens) > 1:
        whole, batch, batch_harm, batch_noise = _between_texts(step, base, unit)
    else:
        changed = others_than(tokens, tokens.reshape(-1)).reshape(tokens.shape)
        whole = _largest(moves(step.rows(changed), base) / unit) or 0.0
    floor = step.floor
    apart = batch is None or batch <= floor
    seen = _Seen()
    for turn in range(CHANGES):
        positions = _positions(step, turn, apart=apart)
        texts = torch.arange(len(tokens))
        changed = tokens.clone()
        changed[texts, positions] = others_than(tokens, tokens[texts, positions])
        moved = moves(step.rows(changed), base) / unit
        seen.add(step, moved, positions, floor)
    if not seen.reach:
        # A text with one prediction at its end has no later positions that could be moved.
        seen.reach = _looks_back(step, base, unit, floor, seen.reach)
    harm = _future_harm(step, base) if seen.before > floor else None
    return Leaks(
        future=seen.before,
        batch=batch,
        own=seen.at,
        later=seen.after,
        floor=floor,
        future_harm=harm,
        batch_harm=batch_harm,
        batch_noise=batch_noise,
        reach=seen.reach,
        length=tokens.shape[1],
        whole=whole,
        spread=deviation(base),
        texts_known=step.texts_known,
        future_share=seen.moved_nearest / seen.asked if seen.asked else None,
    )


def _between_texts(
    step: ChangedTokens, base: Tensor, unit: float
) -> tuple[float, float, float | None, float | None]:
    """How far texts move that were changed, and others, and what that does to the loss of those.

    That is, how much they lose by it, and how much an average over both neighbourhoods gains.
    """
    own, largest, harm, noise = 0.0, 0.0, list[Tensor](), list[Tensor]()
    for half in (0, 1):
        changed, chosen = half_changed(step.tokens, half)
        rows = step.rows(changed)
        kept = ~chosen[step.texts]
        moved = moves(rows, base) / unit
        own = max(own, _largest(moved[~kept]) or 0.0)
        reached = 0.0 if are_classes(base, rows, kept, chosen) else _largest(moved[kept]) or 0.0
        largest = max(largest, reached)
        if reached > 0:
            lost = _lost(step, base, rows, kept & step.counted)
            mixed = _lost(step, base, (base + rows) / 2, kept & step.counted)
            harm += lost
            noise += [by / 2 - with_both for by, with_both in zip(lost, mixed, strict=True)]
    return own, largest, _mean(harm), _mean(noise)


def _looks_back(
    step: ChangedTokens, base: Tensor, unit: float, floor: float, known: int | None
) -> int | None:
    """How far before the last supervised positions a token still moves them."""
    times = step.times[step.counted]
    last = int(times.max()) if len(times) else 0
    reach = known
    for distance in sorted({1, *(last * part // BACKWARD for part in range(1, BACKWARD + 1))}):
        if not 1 <= distance <= last:
            continue
        changed = step.tokens.clone()
        changed[:, last - distance] = others_than(step.tokens, step.tokens[:, last - distance])
        moved = moves(step.rows(changed), base) / unit
        if (_largest(moved[(step.times == last) & step.counted]) or 0.0) > floor:
            reach = distance
    return reach


def _positions(step: ChangedTokens, turn: int, *, apart: bool) -> Tensor:
    """The position to change in each text: all over the sequence, the first and the last too.

    Where texts influence each other, the same in all.
    """
    count, length = step.tokens.shape
    times = torch.unique(step.times[step.counted]) if step.counted.any() else step.times
    # First at supervised positions themselves, then at all that come after one.
    later = torch.arange(min(int(times[0]) + 1, length - 1), length)
    chosen = later if turn else times
    spread = count if apart else 1
    turns = 1 if turn == 0 else CHANGES - 1
    places = torch.arange(spread, dtype=torch.float64) * turns + max(turn - 1, 0)
    share = places / max(spread * turns - 1, 1)
    if spread * turns == 1:
        share = torch.full_like(places, 0.5)
    positions = chosen[(share * (len(chosen) - 1)).round().long()]
    return positions if apart else positions.expand(count)


def _future_harm(step: ChangedTokens, base: Tensor) -> float | None:
    """Nats that a position loses if all tokens after it are replaced by others."""
    tokens = step.tokens
    generator = torch.Generator().manual_seed(0)
    found: list[Tensor] = []
    for turn in range(REPLACEMENTS):
        changed = tokens.clone()
        kept = torch.zeros_like(step.counted)
        for text in range(len(tokens)):
            mine = step.counted & (step.texts == text) & (step.times < tokens.shape[1] - 1)
            times = torch.unique(step.times[mine])
            if len(times):
                last = int(times[((turn + 1) * len(times)) // (REPLACEMENTS + 1)])
                after = tokens[text, last + 1 :]
                if turn % 2:
                    other = tokens.reshape(-1)
                    drawn = torch.randint(len(other), (len(after),), generator=generator)
                    changed[text, last + 1 :] = other[drawn]
                else:
                    changed[text, last + 1 :] = others_than(tokens, after)
                kept |= mine & (step.times == last)
        found += _lost(step, base, step.rows(changed), kept)
    return _mean(found)


def _lost(step: ChangedTokens, base: Tensor, rows: Tensor, kept: Tensor) -> list[Tensor]:
    """Nats by which these rows do worse than before, if that can be said."""
    before, after = step.losses(base, kept), step.losses(rows, kept)
    return [] if before is None or after is None else [after - before]


def _mean(found: list[Tensor]) -> float | None:
    every = torch.cat(found) if found else torch.zeros(0)
    return float(every.mean()) if len(every) else None


def _largest(moves: Tensor) -> float | None:
    return float(moves.max()) if len(moves) else None


def _larger(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


def located_leaks(analysis: Analysis) -> Leaks:
    """Leaks, and the lines where they enter.

    Each place is searched for once in a run.
    """
    roles, memory = analysis.roles, analysis.memory
    found = leaks(analysis.window, roles)
    if found.untested is not None:
        return found
    if roles is None or roles.tokens is None:
        return found
    step = step_to_change(analysis.window, roles)
    if _is_there(found):
        found, asked = _of_next_token(analysis, found, roles)
        if _is_there(found):
            ahead = step_to_change(analysis.window, asked)
            place = memory.place("future leak", lambda: future_leak_place(ahead))
            by_code = memory.answer("future by code", lambda: comes_through_a_code(ahead))
            found = replace(found, places=() if place is None else (place,), by_code=by_code)
    if found.batch is not None and found.batch > found.floor:
        place = memory.place("batch leak", lambda: batch_leak_place(step))
        found = replace(found, batch_places=() if place is None else (place,))
    if found.own is not None and found.own <= found.floor:
        place = memory.place("lost input", lambda: lost_input_place(step))
        found = replace(found, lost_places=() if place is None else (place,))
    if found.reach == 0:
        place = memory.place("lost past", lambda: lost_past_place(step))
        found = replace(found, past_places=() if place is None else (place,))
        found = replace(found, mixes=mixes_positions(step))
    rows = roles.scores if roles.features is None else roles.features.factor
    if rows is None:
        return found
    constant = constant_input(analysis.window.tape, [rows], roles.run.at)
    return found if constant is None else replace(found, constant_places=(str(constant),))


def _is_there(found: Leaks) -> bool:
    return found.future is not None and found.future > found.floor


def _of_next_token(analysis: Analysis, found: Leaks, roles: Roles) -> tuple[Leaks, Roles]:
    """What leaks from the future into the loss that asks for the next token, and that loss.

    A step may have another one that is free to look ahead, such as a masked encoder's.
    """
    own, window = analysis.loss_roles, analysis.window
    aligned = alignment(window, roles)
    if aligned.untested is None:
        found = replace(found, offsets=() if aligned.offset is None else (aligned.offset,))
    looks_ahead = found.offsets is not None and not any(offset >= 1 for offset in found.offsets)
    if not looks_ahead or own is None or own.scores == roles.scores:
        return found, roles
    other, known = leaks(window, own), alignment(window, own)
    if other.untested is not None or known.untested is not None:
        return found, roles
    found = replace(
        found,
        future=other.future,
        future_harm=other.future_harm,
        future_share=other.future_share,
        offsets=() if known.offset is None else (known.offset,),
    )
    return found, own


PROBE = Probe(Leaks, located_leaks)
