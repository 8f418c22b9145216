"""A part of the model that gets one same token at every position, as an encoder fed with zeros.

Segment ids are one number everywhere too, but what is looked up for them is added to the tokens'
rows at once. Here it goes through trained layers first, where nothing of the text has come in.
"""

from __future__ import annotations

from collections.abc import Sequence

from lossleuth.tape.flow import downstream
from lossleuth.tape.roles.features import PRODUCTS
from lossleuth.tape.roles.tokens import lookups_by_constancy
from lossleuth.tape.tape import Operation, Place, Tape


def constant_input(tape: Tape, logits: Sequence[int], before: int) -> Place | None:
    """Where such a token is looked up; None if that is so nowhere."""
    same, varied = lookups_by_constancy(tape, logits, before)
    if not same or not varied:
        return None
    needed = tape.needed_for(logits, before)
    data = downstream(needed, _made(varied))
    weights = downstream(needed, tape.parameters)
    for lookup in same:
        alone = set(_made([lookup]))
        for operation in needed:
            if alone.isdisjoint(operation.inputs) or not data.isdisjoint(operation.inputs):
                continue
            alone.update(_made([operation]))
            trained = not weights.isdisjoint({*operation.inputs} - alone)
            if operation.name in PRODUCTS and trained:
                return lookup.place
    return None


def _made(operations: Sequence[Operation]) -> list[int]:
    return [number for op in operations for number in op.outputs if number is not None]
