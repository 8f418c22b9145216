"""The targets have no relation to the inputs.

What it means
    No offset explains which token a target is: labels of other rows, shuffled shards, another
    tokenizer, random numbers.

Why training fails
    All that can be learnt is how frequent each target is; the loss parks at that entropy.

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
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

# Agreement of a target with any token around; chance is the share of the most frequent token.
AGREEMENT = 0.35
# Standard deviations by which a table of pairs stands out, over all recorded steps together; of
# the largest of several offsets 3 are too few where the text itself does not stand out by far.
RELATED, UNRELATED, TELLING = 5.0, 3.0, 8.0
SURELY_UNRELATED, FAR = 4.0, 60.0
# Nats below the entropy of the targets that show that something was learnt.
LEARNT = 0.1
FEWEST_STEPS = 30
FEWEST_TOKENS = 4


def judge(evidence: Evidence) -> Judgement:
    """Compare targets with all tokens around them, and the loss with their entropy."""
    known = [a for a in evidence.probed("alignment") if a.get("untested") is None]
    known = [a for a in known if a.get("supervised", 0) >= 32]
    if len(known) < 2:
        return untested("fewer than two steps with targets were recorded")
    poor = [a for a in known if a["distinct_tokens"] < FEWEST_TOKENS]
    if poor:
        return untested(
            f"only {poor[0]['distinct_tokens']} different tokens are looked up in a batch: what is "
            "looked up may not be the text"
        )
    best = [max((float(v) for v in a["shares"].values()), default=0.0) for a in known]
    if max(best) > AGREEMENT:
        return refuted(f"an offset explains {max(best):.0%} of the targets")
    floor, losses = unigram(evidence), true_losses(evidence)
    if floor is None or not losses or len(evidence.steps) < FEWEST_STEPS:
        return untested("the run is too short to see what is learnt from such targets")
    lowest = min(loss for _, loss in losses)
    if lowest < floor - LEARNT:
        return refuted(
            f"the loss falls to {lowest:.3f}, below the {floor:.3f} of targets without inputs"
        )
    standing = _standing(evidence)
    if standing is None:
        return untested("no table of tokens and targets could be made")
    related, inputs = standing
    if related > RELATED:
        return refuted(
            f"targets depend on the tokens around them: {related:.0f} standard deviations from "
            "shuffled ones, where 0 is expected of noise"
        )
    if inputs < TELLING or related > (SURELY_UNRELATED if inputs > FAR else UNRELATED):
        return untested(
            f"too few pairs to tell: targets stand out by {related:.1f} standard deviations, the "
            f"text itself by {inputs:.1f}"
        )
    targets = evidence.origins.get("targets")
    where = Where(targets["file"]) if targets else None
    if where is None:
        places = [
            p
            for t in evidence.probed("target_places")
            for p in (*t["targets"], *t["passed"], t["loss"])
        ]
        where = first_place(places)
    because = (
        f"No offset from -2 to 3 explains more than {max(best):.0%} of the targets (the next token "
        f"explains 100 % in a language model). Their table stands out from shuffled ones by "
        f"{related:.1f} standard deviations, that of the text by {inputs:.0f}. The loss stays at "
        f"{lowest:.3f}, the entropy of the targets by themselves ({floor:.3f})."
    )
    return Judgement(
        Status.PROVEN,
        because,
        where,
        Wrongness("share of targets explained by any offset", max(best), 1.0, AGREEMENT),
        remedy="Take inputs and targets from the same place and in the same order.",
    )


def _standing(evidence: Evidence) -> tuple[float, float] | None:
    """How far tables of targets, and of the text itself, stand out over all recorded steps."""
    known = [r for r in evidence.probed("relation") if r.get("untested") is None]
    if not known:
        return None
    root = len(known) ** 0.5
    offsets = {offset for r in known for offset in r["targets"]}
    # Each offset by itself: the largest of several would stand out on every step.
    by_offset = [sum(r["targets"].get(o, 0.0) for r in known) / root for o in offsets]
    return max(by_offset, default=0.0), sum(r["inputs"] for r in known) / root


CAUSE = Cause(
    "label_noise",
    Stage.DATA,
    "targets have no relation to the inputs",
    judge,
    ("alignment", "relation"),
    overlaps=("label_offset",),
    voids_trials=True,
)
