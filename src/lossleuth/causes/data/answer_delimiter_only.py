"""Only one token is ever asked for.

What it means
    Of every text only the end of the answer, or another token of the template, is a target: the
    length of the prompt was counted with the answer in it, or labels were shifted out of the text.

Why training fails
    The loss falls to nothing within a few steps, since the one target is always the same. Nothing
    else is learnt.

How it is judged
    On every recorded step, all targets that count are one and the same token, where the texts
    themselves have many, and the model has a class for each of those. That is exact, and proof by
    itself.

How to fix
    Print the targets of one text. Take the length of the prompt without the answer.

When this verdict is wrong
    When batches are sorted by what is asked for, so that each has one answer and the next another.
    A classifier of a few classes is left out for that.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place, vocabulary
from lossleuth.findings.data import Alignment, TargetLines
from lossleuth.findings.loss import TrueLoss
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
    classes = vocabulary(evidence) or 0
    if classes < max(found.distinct_tokens for found in known):
        return refuted(f"it has {classes} classes, fewer than tokens: its answers are labels")
    because = (
        f"All {count} targets that count on {len(known)} recorded steps are, step by step, one and "
        f"the same token, where texts have {tokens} different ones; at least 2 are needed to "
        "learn anything."
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
    uses=(TargetLines, TrueLoss),
    limits=(MIN_TARGETS, MIN_ALL_TARGETS, MIN_TOKENS),
    overlaps=("labels_all_masked",),
    voids_trials=True,
    relies_on=("lookups",),
)
