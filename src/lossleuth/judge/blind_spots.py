"""What a watch could not see, and which causes that leaves untested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from lossleuth.judge.judging import Judgements
from lossleuth.types.cause import Cause, Patch
from lossleuth.types.judgement import untested

# Patches that could not be applied, with the reason.
Missing = Mapping[str, str]
# Patches on which no verdict depends: what they see is only shown.
ONLY_SHOWN = frozenset(("reads", "modules"))


def drop_blind(causes: Sequence[Cause], judgements: Judgements, missing: Missing) -> Judgements:
    """What was judged without a patch that it relies on is untested, with the reason."""
    found = dict(judgements)
    for cause in causes:
        for patch, problem in missing.items():
            if is_needed(patch, cause):
                reason = f"{patch} could not be watched ({problem})"
                found[cause.id] = untested(reason)
    return found


def is_needed(patch: str, cause: Cause) -> bool:
    """Whether a cause cannot be judged without a patch.

    Those that are of no single cause, such as backward passes, are needed by all.
    """
    if patch in get_args(Patch):
        return patch in cause.relies_on
    return patch not in ONLY_SHOWN
