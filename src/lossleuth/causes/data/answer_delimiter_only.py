"""Only one token is ever asked for.

What it means
    Of every text only the end of the answer, or another token of the template, is a target: the
    length of the prompt was counted with the answer in it, or labels were shifted out of the text.

Why training fails
    The loss falls to nothing within a few steps, since the one target is always the same. Nothing
    else is learnt.

How it is judged
    All targets that count are one and the same token, on all recorded steps, where the texts
    themselves have many. That is exact, and proof by itself. Classes count as tokens where there
    are about as many as rows in the table that tokens are looked up in: a ranking loss has its
    right answer first by design.

How to fix
    Print the targets of one text. Take the length of the prompt without the answer.

When this verdict is wrong
    When the few recorded steps happen to be of one sort, in data that is sorted by its answers.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place
from lossleuth.findings.data import Alignment, TargetLines
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_TARGETS = Limit(2, "fewest targets of a step that is looked at")
MIN_ALL_TARGETS = Limit(16, "fewest targets of all recorded steps together")
MIN_TOKENS = Limit(4, "fewest different tokens of a text that has others to ask for")


def judge(evidence: Evidence) -> Judgement:
    """Look at how many different targets each recorded step has."""
    known = [found for found in evidence.all(Alignment) if found.supervised >= MIN_TARGETS]
    count = sum(found.supervised for found in known)
    if len(known) < 2 or count < MIN_ALL_TARGETS:
        return untested(f"only {count} targets were recorded, on {len(known)} steps")
    most = max(found.distinct_targets for found in known)
    if most > 1 or min(found.distinct_tokens for found in known) < MIN_TOKENS:
        return refuted(f"a recorded step asks for up to {most} different tokens")
    tokens = known[-1].distinct_tokens
    asked = {found.only_target for found in known}
    if None in asked or len(asked) > 1:
        return refuted(
            f"the 1 answer of each step is no token, or another one on each of {len(known)} steps"
        )
    because = (
        f"All {count} targets that count on {len(known)} recorded steps are one and the same token "
        f"({known[-1].only_target}), where texts have {tokens} different ones; at least 2 are "
        "needed to learn anything."
    )
    return Judgement(
        Status.PROVEN,
        because,
        first_place(lines.loss for lines in evidence.all(TargetLines)),
        Wrongness("different targets in a step", 1.0, float(tokens), 0.0),
        remedy="See how the labels are masked: the answer itself has to be among them.",
    )


CAUSE = Cause(
    "answer_delimiter_only",
    Stage.DATA,
    "only one token is ever asked for",
    judge,
    needs=(Alignment,),
    uses=(TargetLines,),
    limits=(MIN_TARGETS, MIN_ALL_TARGETS, MIN_TOKENS),
    # Once the one answer is learnt, decay is all that is left.
    overlaps=("labels_all_masked", "weight_decay_too_strong"),
    voids_trials=True,
    relies_on=("lookups",),
)
