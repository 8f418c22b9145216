"""The token position that each row of the loss belongs to, whatever the layout of the logits.

Where logits are only moved on their way to the loss, position numbers are sent the same way. Where
a loop makes them one by one, or there is one row for each text, the order says it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.roles.tokens import find_tokens
from lossleuth.tape.walk_back import through_moves, walk_back
from lossleuth.tape.window import Window

PACK, UNPACK = "_pack_padded_sequence", "_pad_packed_sequence"


def row_places(window: Window, roles: Roles, tokens: Tensor) -> Tensor:
    """For each row of the loss, the flat position in the batch whose logits it uses."""
    # Turns that take their rows from logits of all positions are followed by sending positions.
    whole = all(_logit_rows(window, part) == tokens.numel() for part in roles.parts)
    if len(roles.parts) > 1 and roles.features is None and not whole:
        return _of_turns(window, roles, tokens)
    return torch.cat([_of_part(window, part, tokens) for part in roles.parts])


def class_axis(window: Window, roles: Roles) -> int:
    """The axis of the logits that becomes the class axis of the loss's scores."""
    assert roles.logits is not None and roles.scores is not None
    shape, classes = window.tape.layouts[roles.logits].shape, roles.vocabulary or 1
    if roles.logits == roles.scores:
        return roles.class_axis % len(shape)
    axes = [axis for axis, size in enumerate(shape) if size == classes]
    if not axes:
        raise CannotReplay("the classes are on no axis of the logits")
    wanted = torch.arange(classes, dtype=torch.float64)
    for axis in reversed(axes) if len(axes) > 1 else ():
        numbered = wanted.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        moved = sent_values(window, roles, numbered.expand(shape).clone())
        if bool((moved.movedim(roles.class_axis, -1).reshape(-1, classes) == wanted).all()):
            return axis
    return axes[-1]


def sent_values(window: Window, roles: Roles, values: Tensor) -> Tensor:
    """Send other values the way of the logits to where the loss takes them."""
    assert roles.logits is not None and roles.scores is not None
    return _sent(window, roles.logits, values, roles.scores, roles.scores_at)


def sent(window: Window, number: int, rows: int, to: int, before: int | None) -> Tensor:
    """Send row numbers from one tensor to another: which row each element comes from."""
    shape = window.tape.layouts[number].shape
    width = math.prod(shape) // max(rows, 1)
    numbered = torch.arange(rows, dtype=torch.float64).repeat_interleave(width).reshape(shape)
    return _sent(window, number, numbered, to, before)


def _sent(window: Window, number: int, values: Tensor, to: int, before: int | None) -> Tensor:
    if to == number:
        return values
    tape = window.tape
    maker = tape.makers().get(number)
    since = 0 if maker is None else maker.number + 1
    replay = Replay(tape, gradients=False)
    given = {number: values} | _met_on_the_way(window, number, to, since, before)
    return replay.run([to], before=before, since=since, leaves=given)[to]


def _of_part(window: Window, roles: Roles, tokens: Tensor) -> Tensor:
    tape, count = window.tape, tokens.numel()
    origin = torch.arange(count, dtype=torch.float64)
    if roles.features is not None:
        first = roles.features
        taken = sent(window, first.number, count, first.factor, first.taken_at)
        origin = taken.median(-1).values.reshape(-1)
    if roles.logits is None or roles.scores is None:
        return _whole(origin, count)
    shape, classes = tape.layouts[roles.logits].shape, roles.vocabulary or 1
    rows = math.prod(shape) // classes
    packed = _packed(window, roles, rows, count)
    if packed is not None:
        origin = packed
    elif len(origin) != rows:
        if rows not in tokens.shape:
            return _before_targets(window, roles, tokens)
        origin = _one_for_each_text(rows, tokens)
    axis = class_axis(window, roles)
    numbered = torch.arange(rows, dtype=torch.float64).unsqueeze(-1).expand(rows, classes)
    rest = [size for i, size in enumerate(shape) if i != axis]
    moved = sent_values(window, roles, numbered.reshape(*rest, classes).movedim(-1, axis).clone())
    places = _usual(moved.movedim(roles.class_axis, -1)).reshape(-1)
    return _whole(origin[_whole(places, rows)], count)


def _packed(window: Window, roles: Roles, rows: int, count: int) -> Tensor | None:
    """The positions of packed sequences, which recurrences leave in their order; None if none are.

    The first tokens of all texts come first, then the second ones, and padding is left out.
    """
    tape, logits = window.tape, roles.logits
    packs = window.once("packs", lambda: [o for o in tape.operations if o.name in (PACK, UNPACK)])
    if not packs or logits is None or logits not in tape.makers():
        return None
    way = {op.number for op in tape.needed_for([logits], tape.makers()[logits].number + 1)}
    last = next((op for op in reversed(packs) if op.number in way), None)
    data = None if last is None or last.name == UNPACK else last.outputs[0]
    if last is None or data is None or tape.layouts[data].shape[:1] != (rows,):
        return None
    source = last.inputs[0]
    # An encoder's sequences may be packed too, and say nothing of the decoder's rows.
    if not roles.tokens_used & {op.number for op in tape.needed_for([source], last.number)}:
        return None
    # Before they were transposed or sorted by length, positions were those of the tokens.
    moved = walk_back(source, through_moves(tape.makers()))
    whole = [i for i in moved if math.prod(tape.layouts[i].shape[:-1]) == count]
    if not whole:
        return None
    sent_NC = sent(window, whole[-1], count, data, last.number + 1)
    return sent_NC.reshape(rows, -1).median(-1).values


def _usual(sent_BTV: Tensor) -> Tensor:
    """The median of each row: classes may be masked on the way, all but those of a class of words.

    What was put in their place is below 0, or no number of a row.
    """
    is_row = (sent_BTV >= 0) & torch.isfinite(sent_BTV) & (sent_BTV == sent_BTV.round())
    return torch.where(is_row, sent_BTV, torch.nan).nanmedian(-1).values


def _one_for_each_text(rows: int, tokens: Tensor) -> Tensor:
    """A model that says one thing of each text says it after the last token."""
    texts, length = tokens.shape
    if rows == texts:
        return torch.arange(1, texts + 1, dtype=torch.float64) * length - 1
    return torch.arange(length, dtype=torch.float64) + (texts - 1) * length


def _of_turns(window: Window, roles: Roles, tokens: Tensor) -> Tensor:
    """Of a loss that a loop takes position by position, or segment by segment."""
    own = [_of_turn(window, part, tokens) for part in roles.parts]
    known = [places for places in own if places is not None]
    # Each turn looks up tokens of its own, and no two turns the same.
    if len(known) == len(own) and len(torch.unique(torch.cat(known))) == sum(map(len, known)):
        return torch.cat(known)
    return _by_sizes(window, roles, tokens)


def _of_turn(window: Window, part: Roles, tokens: Tensor) -> Tensor | None:
    """The places of one turn by the tokens that it looks up last; None if that is not known."""
    assert part.logits is not None and part.tokens is not None
    tape, rows = window.tape, _rows(window, part)
    own = find_tokens(tape, [part.logits], [rows], part.vocabulary or 0)
    if own is None or own.count != rows or not _is_moved(window, part.tokens, own.number):
        return None
    try:
        there = sent(window, part.tokens, tokens.numel(), own.number, own.at)
        return _whole(there.reshape(-1), tokens.numel())[_of_part(window, part, there)]
    except CannotReplay:
        return None


def _is_moved(window: Window, tokens: int, number: int) -> bool:
    """Whether a tensor holds some of the tokens, taken by nothing but views and copies."""
    makers = window.tape.makers()

    return tokens in walk_back(number, through_moves(makers))


def _by_sizes(window: Window, roles: Roles, tokens: Tensor) -> Tensor:
    """Of turns whose tokens are not known: each has a row for each text, say, in order."""
    texts, length = tokens.shape
    parts = roles.parts
    sizes = {_rows(window, part) for part in parts}
    if sizes == {texts} and len(parts) <= length:
        turns, rows = torch.arange(len(parts)), torch.arange(texts)
        return (rows[None, :] * length + turns[:, None]).reshape(-1)
    if sizes == {length} and len(parts) <= texts:
        return torch.arange(len(parts) * length)
    if sum(_rows(window, part) for part in parts) == tokens.numel():
        return torch.arange(tokens.numel())
    return torch.cat([_before_targets(window, part, tokens) for part in parts])


def _before_targets(window: Window, part: Roles, tokens: Tensor) -> Tensor:
    """Of heads that predict several tokens ahead: the place before each target among the tokens."""
    count, length = tokens.numel(), tokens.shape[-1]
    if part.targets is None or part.tokens is None or part.scores_at is None:
        raise CannotReplay("there is not one row of logits for each token")
    if not _is_moved(window, part.tokens, part.targets):
        raise CannotReplay("there is not one row of logits for each token")
    there = sent(window, part.tokens, count, part.targets, None).reshape(-1)
    if len(there) != _rows(window, part) or not bool((there % length >= 1).all()):
        raise CannotReplay("there is not one row of logits for each token")
    return _whole(there - 1, count)


def _rows(window: Window, part: Roles) -> int:
    assert part.scores is not None
    return math.prod(window.tape.layouts[part.scores].shape) // (part.vocabulary or 1)


def _logit_rows(window: Window, part: Roles) -> int:
    """Rows of the logits that a part takes some or all of its rows from."""
    if part.logits is None:
        return 0
    return math.prod(window.tape.layouts[part.logits].shape) // (part.vocabulary or 1)


def _met_on_the_way(
    window: Window, number: int, to: int, since: int, before: int | None
) -> dict[int, Tensor]:
    """Tensors made earlier that the way uses, such as the indices that are picked."""
    tape = window.tape
    operations = tape.needed_for([to], before, since)
    made = {o for operation in operations for o in operation.outputs}
    used = {i for operation in operations for i in operation.inputs}
    others = [i for i in used - made - {number} if i not in tape.leaves]
    return Replay(tape, gradients=False).run(others, before=since) if others else {}


def _whole(places: Tensor, count: int) -> Tensor:
    if not bool(((places >= 0) & (places < count) & (places == places.round())).all()):
        raise CannotReplay("the logits are changed on their way to the loss")
    return places.long()
