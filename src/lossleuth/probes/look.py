"""All that can be measured on one recorded step."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lossleuth.probes.alignment import alignment
from lossleuth.probes.cuts import cuts
from lossleuth.probes.function_truth import function_truths
from lossleuth.probes.gradient_truth import gradient_truth, stale_share
from lossleuth.probes.hand_gradient import hand_gradients
from lossleuth.probes.handling import handling
from lossleuth.probes.hooks import hooks
from lossleuth.probes.leaks import leaks
from lossleuth.probes.precision import first_non_finite, precision
from lossleuth.probes.reported import reported
from lossleuth.probes.update_truth import update_truths
from lossleuth.tape.roles import find_roles
from lossleuth.tape.window import Window


def look_at(window: Window) -> dict[str, Any]:
    """Every probe's numbers, by the probe's name."""
    truths = [gradient_truth(window, run) for run in window.backwards]
    hooked = [found for run in window.backwards for found in hooks(window, run)]
    handled = handling(window)
    roles = find_roles(window)
    broken = first_non_finite(window, roles.run) if roles else None
    return {
        "gradient_truth": [asdict(truth) for truth in truths],
        "hand_gradients": [asdict(found) for found in hand_gradients(window)],
        "handling": None if handled is None else asdict(handled),
        "stale_share": stale_share(window),
        "cuts": [asdict(cuts(window, run)) for run in window.backwards],
        "reported": [asdict(found) for found in reported(window)],
        "hooks": [asdict(found) for found in hooked],
        "functions": [asdict(truth) for truth in function_truths(window)],
        "updates": [asdict(truth) for truth in update_truths(window)],
        "precision": [asdict(o) for o in precision(window, roles.run)] if roles else [],
        "first_non_finite": None if broken is None else asdict(broken),
        "leaks": asdict(leaks(window, roles)),
        "alignment": asdict(alignment(window, roles)),
    }
