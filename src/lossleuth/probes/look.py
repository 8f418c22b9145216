"""All that can be measured on one recorded step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

from lossleuth.probes.data.alignment import alignment
from lossleuth.probes.data.data_size import supply
from lossleuth.probes.data.padding import padding
from lossleuth.probes.data.target_lines import target_places
from lossleuth.probes.data.target_relation import relation
from lossleuth.probes.distillation.teaching import teaching
from lossleuth.probes.evaluation.evaluation import evaluation
from lossleuth.probes.gradient.backward_hooks import hooks
from lossleuth.probes.gradient.custom_functions import function_truths
from lossleuth.probes.gradient.cuts import cuts
from lossleuth.probes.gradient.depth import depth
from lossleuth.probes.gradient.gradient_truth import gradient_truth, stale_share
from lossleuth.probes.gradient.logit_gradient import logit_gradients
from lossleuth.probes.gradient.loss_terms import terms
from lossleuth.probes.gradient.precision import first_non_finite, precision
from lossleuth.probes.gradient.reported_vs_followed import reported
from lossleuth.probes.loss.true_loss import best_roles, true_loss
from lossleuth.probes.model.leak_lines import batch_leak_place, future_leak_place, lost_input_place
from lossleuth.probes.model.leaks import Leaks, leaks
from lossleuth.probes.model.softmaxes import softmaxes
from lossleuth.probes.no_autograd.hand_gradient import hand_gradients
from lossleuth.probes.no_autograd.hand_step import hand_step
from lossleuth.probes.update.coverage import coverage
from lossleuth.probes.update.descent import descent
from lossleuth.probes.update.gradient_edits import handling
from lossleuth.probes.update.update_lines import update_places
from lossleuth.probes.update.update_truth import update_truths
from lossleuth.tape.replay.hidden_copies import link_copies
from lossleuth.tape.roles.roles import Roles, find_roles
from lossleuth.tape.window import Window


@dataclass
class Places:
    """Where leaks come in, as far as it is known: it is looked for once in a run."""

    future: str | None = None
    batch: str | None = None
    lost: str | None = None


def located_leaks(window: Window, roles: Roles | None, known: Places) -> Leaks:
    """Leaks, and for those that are there the place where they come in."""
    found = leaks(window, roles)
    if roles is None:
        return found
    if found.future is not None and found.future > found.floor:
        known.future = known.future or future_leak_place(window, roles)
        found = replace(found, places=() if known.future is None else (known.future,))
    if found.batch is not None and found.batch > found.floor:
        known.batch = known.batch or batch_leak_place(window, roles)
        found = replace(found, batch_places=() if known.batch is None else (known.batch,))
    if found.own is not None and found.own <= found.floor:
        known.lost = known.lost or lost_input_place(window, roles)
        found = replace(found, lost_places=() if known.lost is None else (known.lost,))
    return found


Probe = Callable[[Window, Roles | None], Any]

PROBES: dict[str, Probe] = {
    "gradient_truth": lambda w, _: [gradient_truth(w, run) for run in w.backwards],
    "functions": lambda w, _: function_truths(w),
    "hooks": lambda w, _: [found for run in w.backwards for found in hooks(w, run)],
    "cuts": lambda w, _: [cuts(w, run) for run in w.backwards],
    "depth": lambda w, _: [depth(w, run) for run in w.backwards],
    "terms": lambda w, roles: terms(w, roles.run) if roles else [],
    "teaching": teaching,
    "hand_gradients": lambda w, _: hand_gradients(w),
    "stale_share": lambda w, _: stale_share(w),
    "handling": lambda w, _: handling(w),
    "updates": lambda w, _: update_truths(w),
    "update_places": lambda w, _: update_places(w),
    "reported": lambda w, _: reported(w),
    "precision": lambda w, roles: precision(w, roles.run) if roles else [],
    "first_non_finite": lambda w, roles: first_non_finite(w, roles.run) if roles else None,
    "leaks": lambda w, roles: located_leaks(w, roles, Places()),
    "alignment": lambda w, roles: alignment(w, best_roles(w) or roles),
    "relation": lambda w, roles: relation(w, best_roles(w) or roles),
    "true_loss": lambda w, _: true_loss(w),
    "logit_gradients": lambda w, _: logit_gradients(w),
    "softmaxes": softmaxes,
    "coverage": lambda w, _: coverage(w),
    "descent": lambda w, _: descent(w),
    "padding": padding,
    "supply": supply,
    "target_places": target_places,
    "evaluation": lambda w, _: evaluation(w),
}


def look_at(window: Window, known: Places | None = None) -> dict[str, Any]:
    """Every probe's numbers, by the probe's name; one that failed is named under `errored`.

    Windows of one run share what is `known` of places.
    """
    probes = dict(PROBES)
    if known is not None:
        probes["leaks"] = lambda w, roles: located_leaks(w, roles, known)
    found: dict[str, Any] = {}
    errored: dict[str, str] = {}
    roles: Roles | None = None
    try:
        link_copies(window.tape)
        roles = find_roles(window) if window.backwards else best_roles(window)
    except Exception as error:
        errored["roles"] = f"{type(error).__name__}: {error}"
    for name, probe in probes.items():
        try:
            found[name] = _plain(probe(window, roles))
        except Exception as error:
            # Our failure, and no reason to lose what the others have found.
            found[name], errored[name] = None, f"{type(error).__name__}: {error}"
    window.replayed.clear()
    return found | {"errored": errored}


def look_at_hand_step(window: Window, names: dict[int, str]) -> dict[str, Any]:
    """What can be measured on a step without autograd."""
    try:
        return {"hand_step": _plain(hand_step(window, names))}
    except Exception as error:
        return {"hand_step": None, "errored": {"hand_step": f"{type(error).__name__}: {error}"}}


def look_at_loss(window: Window) -> dict[str, Any]:
    """The true loss alone."""
    return {"true_loss": _plain(true_loss(window))}


def look_at_evaluation(window: Window) -> dict[str, Any]:
    """What was evaluated, alone."""
    try:
        return {"evaluation": _plain(evaluation(window))}
    except Exception as error:
        return {"evaluation": None, "errored": {"evaluation": f"{type(error).__name__}: {error}"}}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
