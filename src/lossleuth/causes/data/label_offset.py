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

from lossleuth.causes.leaking import MIN_MOVE, MIN_SEEN
from lossleuth.causes.lessons import has_labels
from lossleuth.causes.reasoning import first_place
from lossleuth.findings.data import Alignment, TargetLines
from lossleuth.findings.distillation import Teaching
from lossleuth.findings.model import Leaks
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MIN_EXPLAINED = Limit(0.98, "least share of the targets that a wrong offset has to explain")
MAX_BY_NEXT = Limit(0.9, "largest share that the next token may explain at the same time")
MIN_TARGETS = Limit(8, "fewest supervised targets of a step that is looked at")


def judge(evidence: Evidence) -> Judgement:
    """Look at the offset on every recorded step."""
    known = [a for a in evidence.all(Alignment) if a.supervised >= MIN_TARGETS]
    if not known:
        return untested(f"no recorded step has {MIN_TARGETS:.0f} supervised targets")
    aligned = [found for found in known if found.offset is not None]
    if aligned and not any(1 in found.shares for found in aligned):
        return untested("texts are too short to have a next token among them")
    wrong = []
    for found in known:
        offset, right = found.offset, found.shares.get(1, 0.0)
        # Where nothing could be compared at offset 1, another offset is no fault.
        if offset is None or offset == 1 or 1 not in found.shares:
            continue
        if found.shares[offset] >= MIN_EXPLAINED and right < MAX_BY_NEXT:
            wrong.append((offset, found.shares[offset], found.supervised, right))
    offsets = {w[0] for w in wrong}
    if len(wrong) == len(known) and len(offsets) == 1:
        offset, explained, count, right = wrong[-1]
        if _sees_itself(evidence, ahead=offset > 1):
            return refuted(
                f"a model that sees its whole input is asked for offset {offset} in "
                f"{explained:.0%}, as it may be meant to"
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
    copied = [a.heads for a in known if any(o is not None and o <= 0 for o in a.heads)]
    if len(copied) == len(known) and not _sees_itself(evidence):
        return _head(evidence, copied[-1])
    best = known[-1]
    return refuted(
        f"the offset is {best.offset} on {len(known) - len(wrong)} of {len(known)} "
        f"recorded steps, {best.supervised} targets on the last"
    )


def _head(evidence: Evidence, heads: tuple[int | None, ...]) -> Judgement:
    """One of several heads is asked for what it is given."""
    offset = min(o for o in heads if o is not None)
    shown = ", ".join("none" if o is None else str(o) for o in heads)
    because = (
        f"The {len(heads)} losses of a step are asked for offsets {shown}; {offset} is a token "
        "that the model is given, and the least should be 1."
    )
    return Judgement(
        # A loss that rebuilds the input may be meant.
        Status.SUSPECTED,
        because,
        _where(evidence),
        Wrongness("least offset of the targets", float(offset), 1.0, 0.0),
        remedy="Let the first head predict the next token, and each further one the token after.",
    )


def _sees_itself(evidence: Evidence, *, ahead: bool = False) -> bool:
    """Whether later tokens reach earlier positions: then this is no next-token model at all.

    Where tokens further `ahead` are asked for, they have to reach many: a prefix sees itself, and
    its end may be asked for.
    """
    leaks = [x for x in evidence.all(Leaks) if x.future is not None]
    return bool(leaks) and all(
        (x.future or 0.0) > max(x.floor, MIN_MOVE)
        and (not ahead or x.future_share is None or x.future_share > MIN_SEEN)
        for x in leaks
    )


def _where(evidence: Evidence) -> Where | None:
    targets, tokens = evidence.origins.targets, evidence.origins.tokens
    if targets is not None and (tokens is None or targets.file != tokens.file):
        return Where(targets.file)
    for lines in evidence.all(TargetLines):
        found = first_place([*lines.targets, *lines.logits, *lines.passed, lines.loss])
        if found:
            return found
    return None


CAUSE = Cause(
    "label_offset",
    Stage.DATA,
    "targets are not the next token",
    judge,
    needs=(Alignment,),
    uses=(Leaks, TargetLines, Teaching),
    limits=(MIN_EXPLAINED, MAX_BY_NEXT, MIN_TARGETS, MIN_SEEN, MIN_MOVE),
    overlaps=("label_noise",),
    voids_trials=True,
    changes_printed_loss=True,
    relies_on=("lookups",),
    is_core=has_labels,
)
