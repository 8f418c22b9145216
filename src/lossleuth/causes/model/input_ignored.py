"""The output does not depend on the input.

What it means
    Whatever tokens go in, the same logits come out: the embedding is multiplied by zero, the wrong
    tensor is passed on, everything is normalised away.

Why training fails
    Only how frequent tokens are can be learnt: the loss parks at their entropy.

How it is judged
    Tokens are changed where the program looks them up, and the step is replayed in float64: not one
    logit moves at the changed position, although logits differ from class to class. Proven by that
    alone, if it is so on every recorded step.

How to fix
    Follow the embedding's result through the model and see where it is lost.

When this verdict is wrong
    It has no known exception.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import finite, first_place, true_losses, unigram
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# Different targets that show that a text is there.
FEWEST = 4


def judge(evidence: Evidence) -> Judgement:
    """Look at the logits of the changed position itself."""
    constant = _constant(evidence)
    if constant is not None:
        return constant
    known = [
        (x, w.get("true_loss") or {})
        for w in evidence.windows
        if finite([(x := w.get("leaks") or {}).get("own")])
    ]
    if not known:
        reasons = [x["untested"] for x in evidence.probed("leaks") if x.get("untested")]
        return untested(reasons[0] if reasons else "no step with tokens and logits was recorded")
    late = [(x, t) for x, t in known if t.get("logits_std")]
    deaf = [x for x, _ in late if x["own"] <= x["floor"] and (x.get("order") or 0) <= x["floor"]]
    if not late and all(x["own"] <= x["floor"] for x, _ in known):
        return untested("whether logits differ from class to class is not known, or they do not")
    if not late or len(deaf) < len(late):
        most = max(x["own"] for x, _ in known)
        return refuted(f"changing a token moves its own logits by {most:.2g}, expected above 0")
    losses, floor = true_losses(evidence), unigram(evidence)
    told = ""
    if losses and floor is not None:
        told = f" The loss is {losses[-1][1]:.3f}, the entropy of single tokens {floor:.3f}."
    because = (
        f"Changing a token moves its logits by {max(x['own'] for x in deaf):.1e} of their standard "
        f"deviation on all of {len(deaf)} recorded steps; it should be well above 0.{told}"
    )
    lost = first_place(p for x in deaf for p in x.get("lost_places", ()))
    return Judgement(
        Status.PROVEN,
        because,
        lost or first_place(p["loss"] for p in evidence.probed("target_places")),
        Wrongness("move of a token's own logits", 0.0, 1.0, deaf[-1]["floor"]),
        remedy="Find where the embedding's result is lost on its way to the logits.",
    )


def _constant(evidence: Evidence) -> Judgement | None:
    """Whether the same token is looked up everywhere, whatever the targets are."""
    known = [a for a in evidence.probed("alignment") if a.get("distinct_targets", 0) >= FEWEST]
    if len(known) < 2 or any(a["distinct_tokens"] > 1 for a in known):
        return None
    because = (
        f"One and the same token is looked up at every position on all of {len(known)} recorded "
        f"steps, where the targets are {known[-1]['distinct_targets']} different ones."
    )
    return Judgement(
        Status.PROVEN,
        because,
        first_place(p["loss"] for p in evidence.probed("target_places")),
        Wrongness("different tokens in a batch", 1.0, float(known[-1]["distinct_targets"]), 0.0),
        remedy="See how the indices of the embedding are made.",
    )


CAUSE = Cause(
    "input_ignored",
    Stage.MODEL,
    "the output does not depend on the input",
    judge,
    ("leaks",),
    overlaps=("dead_network",),
    voids_trials=True,
)
