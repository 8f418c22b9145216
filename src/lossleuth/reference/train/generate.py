"""Let a model write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.reference.train.model import KeyValueCache, LanguageModel
from lossleuth.types.errors import BadInput


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn; temperature 0 takes the likeliest."""

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


def generate(
    model: LanguageModel,
    prompt: Sequence[int],
    tokens: int,
    sampling: Sampling,
    *,
    stop: int,
    never: int | None = None,
    cached: bool = True,
) -> Iterator[int]:
    """Draw tokens one by one until `stop`, `tokens` at most; `never` is never drawn.

    The cache changes the speed, not the tokens: both ways read the same window.
    """
    generator = torch.Generator().manual_seed(sampling.seed)
    history = list(prompt)
    cache, cached_from = KeyValueCache(), 0
    model.eval()
    for _ in range(tokens):
        start = window_start(len(history), model.shape.context)
        if not cached or start != cached_from:
            cache, cached_from = KeyValueCache(), start
        unseen = history[start + cache.length :]
        with torch.no_grad():
            device = model.embedding.weight.device
            logits_V = model(torch.tensor([unseen], device=device), cache)[0, -1].cpu()
        if not logits_V.isfinite().all():
            raise BadInput(
                "finite numbers from the model",
                f"NaN or infinity among the logits after {len(history)} tokens",
                "its training has diverged: use an earlier checkpoint, or train with a lower --lr",
            )
        if never is not None:
            logits_V[never] = -torch.inf
        token = draw(logits_V, sampling, generator)
        if token == stop:
            return
        history.append(token)
        yield token


def window_start(length: int, context: int) -> int:
    """Where the model starts to read a text of `length` tokens.

    A text longer than the context loses its oldest tokens half a context at a time, so that a
    cache can be used between the losses.

    >>> [window_start(length, context=8) for length in (1, 8, 9, 12, 13)]
    [0, 0, 4, 4, 8]
    """
    hop = max(1, context // 2)
    return max(0, -(-(length - context) // hop)) * hop


def draw(logits_V: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """One token from one row of logits.

    >>> draw(torch.tensor([0.0, 3.0, 1.0]), Sampling(temperature=0), torch.Generator())
    1
    """
    if sampling.temperature == 0:
        return int(logits_V.argmax())
    # The largest is made 0 first: divided by a tiny temperature it would be infinite.
    below_V = logits_V.double() - logits_V.max()
    probabilities = torch.softmax(below_V / sampling.temperature, dim=0)
    ranked, order = probabilities.sort(descending=True, stable=True)
    if sampling.top_k:
        ranked[sampling.top_k :] = 0
    # A token stays while what ranks before it has not reached top_p yet; the first always does.
    ranked[ranked.cumsum(0) - ranked >= sampling.top_p] = 0
    return int(order[torch.multinomial(ranked, 1, generator=generator)])
