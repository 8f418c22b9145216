"""Findings about the forward pass."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class Leaks(Finding):
    """Largest changes of logits, as shares of their standard deviation."""

    # At supervised positions before the changed one; exactly 0 in a causal model.
    future: float | None
    # In texts other than the changed ones.
    batch: float | None
    # At the changed position itself; 0 means that the input is ignored.
    own: float | None
    # At positions after the changed one.
    later: float | None
    # Where the first two enter, as file:line.
    places: tuple[str, ...] = ()
    batch_places: tuple[str, ...] = ()
    # Whether the future comes in through a tensor without positions, such as a code of the text.
    by_code: bool = False
    # Where the input is lost, if it is ignored.
    lost_places: tuple[str, ...] = ()
    # Where earlier tokens are lost on their way to later positions, if none gets there.
    past_places: tuple[str, ...] = ()
    # Whether anything was made to carry them there; asked for only then.
    mixes: bool | None = None
    # Where one same token is looked up for every position of every text, though other texts are
    # there, and goes through trained layers before it meets them.
    constant_places: tuple[str, ...] = ()
    # Rounding floor: other tokens may change how a kernel splits its work.
    floor: float = 1e4 * 2.0**-52
    # Nats that a position loses when the tokens after it are replaced, and a text when others are.
    future_harm: float | None = None
    batch_harm: float | None = None
    # Nats by which predictions of a text are better if they are averaged over other neighbours:
    # what moves them is noise, of which the model makes no use.
    batch_noise: float | None = None
    # Context reach: positions from a changed token to the last whose logits it moved, and how many
    # positions a text has.
    reach: int | None = None
    length: int = 0
    # Of a text's own logits, wherever they are, when all of its tokens are changed.
    whole: float | None = None
    # The standard deviation itself, over positions and classes.
    spread: float | None = None
    # Whether it is known which rows of logits are of which text.
    texts_known: bool = True
    # Offsets that explain the targets of these very logits, where the future leaks into them; a
    # step may have another loss, of other logits.
    offsets: tuple[int, ...] | None = None
    # The share of changed tokens that move the nearest supervised position before them: all of them
    # where a model looks ahead, a few where only a prefix does.
    future_share: float | None = None


@dataclass(frozen=True)
class OtherInput(Finding):
    """Tokens that are looked up beside those that the targets follow, such as an encoder's."""

    # Where they are looked up, as file:line, and which of several it is: the larger come first.
    place: str | None
    # Largest move of any logit if all of them are others, as a share of the logits' standard
    # deviation, and what rounding may do.
    moved: float
    floor: float
    # Nats that a prediction loses with those of another text, where that can be said.
    worth: float | None = None
    number: int = 0


@dataclass(frozen=True)
class Softmaxes(Finding):
    """What goes into the loss's softmax, and softmaxes over another axis than they are used on."""

    # Largest distance of a row's sum from 1, where no entry is negative; else None.
    probability_gap: float | None
    # Share of the classes that are at the same index as in the logits.
    classes_in_place: float | None
    # Where the loss's softmax was taken.
    place: str | None
    # Softmaxes whose result is summed over an axis that was not made to sum to 1.
    crossed: tuple[tuple[str | None, int | None], ...]
    # The axis of the loss's softmax, if targets are picked along another one.
    picked_elsewhere: bool = False
    # Where a log-softmax was taken whose targets are shares along another axis.
    across_targets: str | None = None
    # The share of the targets' sums along that softmax's axis that are 1.
    targets_in_place: float | None = None
    # Where the softmax before that one was taken, if there is one.
    inner_place: str | None = None
