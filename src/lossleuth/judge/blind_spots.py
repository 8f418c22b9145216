"""What a watch could not see, and which causes that leaves untested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# The causes that need what each patch of torch sees; None stands for every cause.
NEEDED_BY: Mapping[str, frozenset[str] | None] = {
    "everything": None,
    # Without these there are no steps, or not the program's.
    "backward": None,
    "optimizers": None,
    # Seeds and changes: no two runs can be compared.
    "trials": None,
    "clipping": frozenset(("clip_too_tight",)),
    "loss scaling": frozenset(
        (
            *("accumulation_normalisation", "clip_too_tight", "gradient_not_cleared"),
            *("loss_scale", "lr_too_high", "lr_too_low", "never_steps", "overflow"),
        )
    ),
    "lookups": frozenset(
        (
            *("divergence_misused", "label_noise", "label_offset", "labels_all_masked"),
            *("metric_offset", "overflow", "pad_in_loss", "parameters_frozen"),
            *("repeated_batch", "teacher_weak"),
        )
    ),
    # Batches are known by their lookups too; where a program makes none, by this alone.
    "data loaders": frozenset(("repeated_batch",)),
    # Shown in the report; no cause is judged by them.
    "reads": frozenset(),
    "modules": frozenset(),
}


def left_untested(missing: Mapping[str, str], causes: Iterable[str]) -> dict[str, str]:
    """The causes that cannot be judged without these patches, each with the reason.

    A patch that is not known here may have fed anything.

    >>> left_untested({"clipping": "no such function"}, ["clip_too_tight", "label_offset"])
    {'clip_too_tight': 'clipping could not be watched (no such function)'}
    """
    found: dict[str, str] = {}
    for cause in causes:
        for patch, problem in missing.items():
            needed_by = NEEDED_BY.get(patch)
            if needed_by is None or cause in needed_by:
                found.setdefault(cause, f"{patch} could not be watched ({problem})")
    return found
