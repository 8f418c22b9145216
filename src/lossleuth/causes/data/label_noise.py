"""The targets have no relation to the inputs.

What it means
    No offset explains which token a target is: labels of other rows, shuffled shards, another
    tokenizer, random numbers.

Why training fails
    The model can only learn how frequent each target is; the loss stays at that entropy.

How it is judged
    On all recorded steps the targets agree with the input at no offset more often than tokens agree
    by chance; the table of tokens and targets is that of shuffled targets, where the same count of
    tokens and next tokens clearly is not; and the loss does not fall below the entropy of the
    targets by themselves.

How to fix
    Look at one batch: print inputs and targets side by side. See where one of them is shuffled,
    sorted or read without the other.

When this verdict is wrong
    When targets depend on the inputs in a way that no pair of a token and a target shows.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place, true_losses, unigram
from lossleuth.findings.data import Alignment, TargetLines, TargetRelation
from lossleuth.findings.loss import TrueLoss
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MIN_STEPS = Limit(30, "fewest steps of a run that shows what is learnt")
MIN_TARGETS = Limit(32, "fewest supervised targets of a recorded step that counts")
MIN_DISTINCT_TOKENS = Limit(
    4,
    "fewest different tokens of a batch that is a text",
    "picked by hand, after a lookup of a constant was taken for a text (docs/log.md)",
)
MIN_DENSE = Limit(0.1, "least share of the tokens of a step that has a target of its own")
# Chance is the share of the most frequent token.
MAX_CHANCE = Limit(0.35, "largest share of the targets that an offset explains by chance")
MIN_LEARNT = Limit(0.1, "nats below the entropy of the targets that show that something is learnt")
MIN_RELATED = Limit(5.0, "standard deviations above which targets depend on tokens")
MAX_NOISE = Limit(3.0, "largest number of standard deviations by which noise stands out")
# The largest of several offsets passes 3 by chance.
MAX_NOISE_CLEAR_TEXT = Limit(4.0, "the same, where the text itself stands out by far")
MIN_TEXT = Limit(8.0, "standard deviations by which the text has to stand out from shuffled text")
MIN_CLEAR_TEXT = Limit(60.0, "standard deviations above which the text stands out by far")


def judge(evidence: Evidence) -> Judgement:
    """Compare targets with all tokens around them, and the loss with their entropy."""
    known = [a for a in evidence.all(Alignment) if a.supervised >= MIN_TARGETS]
    if len(known) < 2:
        return untested(
            f"fewer than two steps with {MIN_TARGETS:.0f} supervised targets were recorded"
        )
    distinct = [a.distinct_tokens for a in known if a.distinct_tokens < MIN_DISTINCT_TOKENS]
    if distinct:
        return untested(
            f"only {distinct[0]} different tokens are looked up in a batch: what is looked up may "
            "not be the text"
        )
    sparse = [a for a in known if a.targets < MIN_DENSE * a.tokens]
    if sparse:
        return untested(
            f"{sparse[0].targets} targets for {sparse[0].tokens} tokens: the few tokens at their "
            "places need not be what they follow from"
        )
    explained = max(max(a.shares.values(), default=0.0) for a in known)
    if explained > MAX_CHANCE:
        return refuted(f"an offset explains {explained:.0%} of the targets")
    entropy, losses = unigram(evidence), true_losses(evidence)
    if entropy is None or not losses or len(evidence.steps) < MIN_STEPS:
        return untested("the run is too short to see what is learnt from such targets")
    lowest = min(loss for _, loss in losses)
    if lowest < entropy - MIN_LEARNT:
        return refuted(
            f"the loss falls to {lowest:.3f}, below the {entropy:.3f} of targets without inputs"
        )
    standing = _standing(evidence)
    if standing is None:
        return untested("no table of tokens and targets could be made")
    related, text = standing
    if related > MIN_RELATED:
        return refuted(
            f"targets depend on the tokens around them: {related:.0f} standard deviations from "
            "shuffled ones, where 0 is expected of noise"
        )
    if text < MIN_TEXT or related > (MAX_NOISE_CLEAR_TEXT if text > MIN_CLEAR_TEXT else MAX_NOISE):
        return untested(
            f"too few pairs to decide: targets stand out by {related:.1f} standard deviations, the "
            f"text itself by {text:.1f}"
        )
    because = (
        f"No offset from -2 to 3 explains more than {explained:.0%} of the targets (the next token "
        f"explains 100 % in a language model). Their table stands out from shuffled ones by "
        f"{related:.1f} standard deviations, that of the text by {text:.0f}. The loss stays at "
        f"{lowest:.3f}, the entropy of the targets by themselves ({entropy:.3f})."
    )
    return Judgement(
        Status.PROVEN,
        because,
        _where(evidence),
        Wrongness("share of targets explained by any offset", explained, 1.0, float(MAX_CHANCE)),
        remedy="Take inputs and targets from the same place and in the same order.",
    )


def _standing(evidence: Evidence) -> tuple[float, float] | None:
    """How far tables of targets, and of the text itself, stand out over all recorded steps."""
    known = evidence.all(TargetRelation)
    if not known:
        return None
    root = len(known) ** 0.5
    offsets = {offset for relation in known for offset in relation.targets}
    # Each offset by itself: the largest of several would stand out on every step.
    by_offset = [sum(r.targets.get(offset, 0.0) for r in known) / root for offset in offsets]
    return max(by_offset, default=0.0), sum(relation.inputs for relation in known) / root


def _where(evidence: Evidence) -> Where | None:
    """The file of the targets, else the lines that made them, else the line of the loss."""
    if evidence.origins.targets is not None:
        return Where(evidence.origins.targets.file)
    return first_place(
        place
        for lines in evidence.all(TargetLines)
        for place in (*lines.targets, *lines.passed, lines.loss)
    )


CAUSE = Cause(
    "label_noise",
    Stage.DATA,
    "targets have no relation to the inputs",
    judge,
    needs=(Alignment,),
    uses=(TargetRelation, TrueLoss, TargetLines),
    limits=(
        MIN_STEPS,
        MIN_TARGETS,
        MIN_DISTINCT_TOKENS,
        MIN_DENSE,
        MAX_CHANCE,
        MIN_LEARNT,
        MIN_RELATED,
        MAX_NOISE,
        MAX_NOISE_CLEAR_TEXT,
        MIN_TEXT,
        MIN_CLEAR_TEXT,
    ),
    overlaps=("label_offset",),
    voids_trials=True,
    relies_on=("lookups",),
)
