"""Everything trained that the model uses."""

from __future__ import annotations

from lossleuth.findings.distillation import Teaching
from lossleuth.findings.update import Coverage
from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence


def _leaves_something_out(evidence: Evidence) -> bool:
    """Whether some of it is not trained, and neither a file nor adapters say why."""
    weights = evidence.origins.weights
    if weights is not None and weights.files:
        return False
    if evidence.all(Teaching):
        # A teacher stays as it is.
        return False
    known = evidence.all(Coverage)
    return any(c.frozen_share > 0 or c.missing for c in known) and not any(
        c.thin_share for c in known
    )


CHALLENGES = (
    Challenge(
        Change.of("train_everything"),
        "with everything trained that the model uses",
        applies=_leaves_something_out,
    ),
)
