"""Which update rule moved a weight, found from values alone.

What an optimizer remembers is known by how it changed: a running sum of gradients is a first
moment, one of their squares a second, whatever it is called. Rates, ages and the like are the
numbers that the optimizer holds; one explains the update or none does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Elements that a rule is first tried on. Picked by hand.
SAMPLED_ELEMENTS = 512
# Share of a change that rounding in float32 may leave unexplained. Picked by hand.
MAX_ROUNDING_SHARE = 1e-3
# Rules are a tie if the shares of a move that they leave differ by no more than this. Picked by
# hand.
MAX_TIE_DIFFERENCE = 1e-5
# Epsilon of an optimizer that does not store one: torch's default.
USUAL_EPSILON = 1e-8


@dataclass(frozen=True)
class Facts:
    """One weight, what it was moved by, and what the optimizer held before and after."""

    weight: Tensor
    gradient: Tensor
    moved: Tensor
    before: dict[str, Any]
    after: dict[str, Any]
    settings: dict[str, Any]

    def some(self) -> Facts:
        """The same of a few elements, evenly taken."""
        count = self.weight.numel()
        places = torch.arange(0, count, max(1, count // SAMPLED_ELEMENTS))[:SAMPLED_ELEMENTS]

        def taken(value: Any) -> Any:
            same = isinstance(value, Tensor) and value.shape == self.weight.shape
            return value.reshape(-1)[places] if same else value

        return Facts(
            weight=taken(self.weight),
            gradient=taken(self.gradient),
            moved=taken(self.moved),
            before={k: taken(v) for k, v in self.before.items()},
            after={k: taken(v) for k, v in self.after.items()},
            settings=self.settings,
        )

    def numbers(self) -> list[float]:
        """Every number that the optimizer holds for this weight."""
        return list(dict.fromkeys(_numbers([self.settings, self.before])))

    def memories(self) -> Iterator[tuple[str, Tensor | None, Tensor]]:
        """Name, value before and value after of all that has the weight's shape."""
        for name, value in self.after.items():
            if isinstance(value, Tensor) and value.shape == self.weight.shape:
                old = self.before.get(name)
                yield name, old.double() if isinstance(old, Tensor) else None, value.double()


@dataclass(frozen=True)
class Moment:
    """A memory that is `kept` times itself plus `added` times something new."""

    name: str
    kept: float
    added: float

    def corrected(self, value: Tensor, age: float) -> Tensor:
        """What it estimates, where it began at 0."""
        share = self.added * (1 - self.kept**age) / (1 - self.kept) if self.kept != 1 else 1.0
        return value / share if share else value


@dataclass(frozen=True)
class Rule:
    """A rule with its numbers."""

    rate: float
    decay: float = 0.0
    first: Moment | None = None
    second: Moment | None = None
    epsilon: float = 0.0
    age: float | None = None
    decoupled: bool = False
    under_root: bool = False
    # A memory and its share beside the gradient, where only the sign of both together counts.
    sign_of: tuple[str | None, float] | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        if self.sign_of is not None:
            return "sign descent"
        if self.first is None and self.second is None:
            return "SGD"
        if self.second is None:
            return "SGD with momentum"
        if self.first is None:
            return "RMSprop"
        base = "AdamW" if self.decoupled else "Adam"
        if self.under_root:
            return f"{base} with epsilon under the root"
        return base if self.age is not None else f"{base} without bias correction"

    def move(self, facts: Facts) -> Tensor:
        """By how much it moves the weight."""
        weight, step = facts.weight.double(), facts.gradient.double()
        if not self.decoupled:
            step = step + self.decay * weight
        if self.sign_of is not None:
            name, share = self.sign_of
            old = facts.before.get(name) if name is not None else None
            step = (1 - share) * step + (share * old.double() if old is not None else 0.0)
            step = step.sign()
        if self.first is not None:
            step = _value(facts, self.first, self.age)
        if self.second is not None:
            second = _value(facts, self.second, self.age)
            root = (second + self.epsilon).sqrt() if self.under_root else second.sqrt()
            step = step / (root if self.under_root else root + self.epsilon)
        step = -self.rate * step
        return step - self.rate * self.decay * weight if self.decoupled else step


def best_rule(facts: Facts) -> Rule | None:
    """The rule that explains a weight's move best, tried on a few of its elements."""
    few = facts.some()
    best, least = None, math.inf
    tie = MAX_TIE_DIFFERENCE * float(few.moved.norm())
    for rule in _rules(few):
        left = float((few.moved - rule.move(few)).norm())
        # Of two equally good rules the plainer one comes first.
        if left < least - tie or best is None:
            best, least = rule, left
    return best


def _rules(facts: Facts) -> Iterator[Rule]:
    numbers = facts.numbers()
    rates = [n for n in numbers if n > 0]
    small = [0.0, *(n for n in numbers if 0 < n < 1)]
    epsilons = list(dict.fromkeys([*(n for n in numbers if 0 < n < 1e-3), USUAL_EPSILON]))
    ages = [
        None,
        *sorted({m for n in numbers if n == round(n) and n >= 0 for m in (n, n + 1) if m}),
    ]
    if not facts.before:
        ages.append(1.0)
    for decay in small:
        coupled = facts.gradient.double() + decay * facts.weight.double()
        firsts = [None, *moments(facts, coupled)]
        seconds = [None, *moments(facts, coupled * coupled)]
        for rate, first in itertools.product(rates, firsts):
            yield Rule(rate, decay, first)
        # The rule with more memory comes first: at its first step Adam is also an RMSprop.
        for first, second in itertools.product(firsts[::-1], seconds):
            if second is None or (first is not None and first.name == second.name):
                continue
            choices = itertools.product(ages[::-1], rates, epsilons, (False, True))
            for age, rate, epsilon, under in choices:
                yield Rule(
                    rate=rate,
                    decay=decay,
                    first=first,
                    second=second,
                    epsilon=epsilon,
                    age=age,
                    decoupled=False,
                    under_root=under,
                )
    plain = facts.gradient.double()
    shares = [(name, share) for name, _, _ in facts.memories() for share in small if share]
    for sign_of, rate, decay in itertools.product([(None, 0.0), *shares], rates, small):
        yield Rule(rate, decay, decoupled=True, sign_of=sign_of)
    for first, second in itertools.product(moments(facts, plain), moments(facts, plain * plain)):
        every = itertools.product(small, ages[::-1], rates, epsilons, (False, True))
        for decay, age, rate, epsilon, under in every:
            yield Rule(
                rate=rate,
                decay=decay,
                first=first,
                second=second,
                epsilon=epsilon,
                age=age,
                decoupled=True,
                under_root=under,
            )


def moments(facts: Facts, new: Tensor) -> list[Moment]:
    """The memories that took in this and nothing else."""
    found = []
    for name, old, now in facts.memories():
        kept, added = _shares(torch.zeros_like(now) if old is None else old, new, now)
        past = 0.0 if old is None else kept * old
        left = float((now - past - added * new).norm())
        if added > 0 and left <= MAX_ROUNDING_SHARE * float(now.norm()):
            found.append(Moment(name, kept, added))
    return found


def _shares(old: Tensor, new: Tensor, now: Tensor) -> tuple[float, float]:
    """How much of the old and of the new went into what is there now, by least squares."""
    a, b, c = float(old @ old), float(old @ new), float(new @ new)
    p, q = float(old @ now), float(new @ now)
    determinant = a * c - b * b
    if a and determinant > 1e-12 * a * c:
        return (p * c - q * b) / determinant, (q * a - p * b) / determinant
    # The first time: what is taken in of the new is usually what is lost of the old.
    added = q / c if c else 0.0
    return 1 - added, added


def _value(facts: Facts, moment: Moment, age: float | None) -> Tensor:
    value: Tensor = facts.after[moment.name].double()
    return value if age is None else moment.corrected(value, age)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, bool):
        return
    if isinstance(value, Tensor):
        value = float(value) if value.numel() == 1 else None
    if isinstance(value, int | float):
        yield from [float(value)] if math.isfinite(value) else []
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, dict):
        yield from _numbers(list(value.values()))
