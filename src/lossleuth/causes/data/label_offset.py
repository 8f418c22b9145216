"""The targets are not the next token.

What it means
    Each position of a language model predicts the token that follows it. Here the targets are the
    input at another offset: 0 is the token itself, 2 the one after the next, -1 the one before.

Why training fails
    The loss is a sound number of another task. At 0 it falls to nothing by copying; at 2 the model
    learns to skip a token; the text it writes is garbage while the loss looks right.

How it is judged
    On recorded steps, each supervised target is compared with the input tokens around the position
    whose logits it is compared with. An offset other than 1 explains nearly all of them, and 1 does
    not. Proven by that alone: the loss does not measure a language model.

How to fix
    Shift once: `logits[:, :-1]` against `tokens[:, 1:]`, or give the labels unshifted to a model
    that shifts them itself.

When this verdict is wrong
    When the program is meant to copy or to predict further ahead. Models that see their whole input
    and reproduce it, such as denoisers and autoencoders, are left out.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

# Share of the targets that an offset has to explain, and that the right one may at most.
EXPLAINED, COINCIDENCE = 0.98, 0.9


def judge(evidence: Evidence) -> Judgement:
    """Look at the offset on every recorded step."""
    known = [a for a in evidence.probed("alignment") if a.get("untested") is None]
    known = [a for a in known if a.get("supervised", 0) >= 8]
    if not known:
        reasons = [a["untested"] for a in evidence.probed("alignment") if a.get("untested")]
        return untested(reasons[0] if reasons else "no step with targets was recorded")
    wrong = []
    for found in known:
        shares = {int(k): float(v) for k, v in found["shares"].items()}
        offset = found.get("offset")
        right = shares.get(1, 0.0)
        wrong_offset = offset is not None and offset != 1 and shares[offset] >= EXPLAINED
        if wrong_offset and right < COINCIDENCE:
            wrong.append((offset, shares[offset], found["supervised"], right))
    offsets = {w[0] for w in wrong}
    if len(wrong) == len(known) and len(offsets) == 1:
        offset, explained, count, right = wrong[-1]
        if offset == 0 and _sees_itself(evidence):
            return refuted(
                f"a model that sees its whole input reproduces {explained:.0%} of it, as it may be "
                "meant to"
            )
        because = (
            f"Targets equal the inputs at offset {offset} in {explained:.0%} of {count} positions; "
            f"a language model's targets are at offset 1, which explains {right:.0%}."
        )
        return Judgement(
            Status.PROVEN,
            because,
            _where(evidence),
            Wrongness("offset of the targets", float(offset), 1.0, 0.0),
            cure=Change.of("follow_cross_entropy"),
            remedy="Compare the logits of a position with the token that follows it, shifted once.",
        )
    best = known[-1]
    return refuted(
        f"the offset is {best.get('offset')} on {len(known) - len(wrong)} of {len(known)} "
        f"recorded steps, {best['supervised']} targets on the last"
    )


def _sees_itself(evidence: Evidence) -> bool:
    """Whether later tokens reach earlier positions: then this is no next-token model at all."""
    leaks = [x for x in evidence.probed("leaks") if x.get("future") is not None]
    return bool(leaks) and all(x["future"] > x["floor"] for x in leaks)


def _where(evidence: Evidence) -> Where | None:
    targets, tokens = evidence.origins.get("targets"), evidence.origins.get("tokens")
    if targets and (not tokens or targets["file"] != tokens["file"]):
        return Where(targets["file"])
    for places in evidence.probed("target_places"):
        found = first_place(
            [*places["targets"], *places["logits"], *places["passed"], places["loss"]]
        )
        if found:
            return found
    return None


CAUSE = Cause(
    "label_offset",
    Stage.DATA,
    "targets are not the next token",
    judge,
    needs=("alignment",),
    overlaps=("label_noise",),
    voids_trials=True,
)
