"""What a resumed run may not change: everything that would make it another run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from lossleuth.reference.train import checkpoint as checkpoints
from lossleuth.reference.train.checkpoint import Checkpoint
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.settings import Resolved, option_name, resolve
from lossleuth.types.errors import BadInput

# `data` may name the same text at another place, which its fingerprint tells.
MAY_CHANGE = (
    "steps",
    "evaluate_every",
    "checkpoint_every",
    "bad_steps_allowed",
    "device",
    "data",
)


def saved_settings(checkpoint: Checkpoint) -> TrainSettings:
    """The settings that a checkpoint was made with."""
    return resolve(TrainSettings, options={}, saved=checkpoint.header.settings).values


def check_place(checkpoint: Checkpoint, out: Path | None, *, overwrite: bool) -> None:
    """Refuse options that a resumed run, which goes on where it is, cannot obey."""
    stays = "a resumed run goes on in its own directory"
    if out is not None:
        raise BadInput("no --out with --resume", f"--out {out}", f"leave it out: {stays}")
    if overwrite:
        raise BadInput("no --overwrite with --resume", "--overwrite", f"leave it out: {stays}")
    if checkpoint.path.name != checkpoints.FILE_NAME:
        raise BadInput(
            f"a run directory or its {checkpoints.FILE_NAME} to resume",
            f"{checkpoint.path}, beside which {checkpoints.FILE_NAME} would be written",
            f"copy it into a new directory under the name {checkpoints.FILE_NAME}",
        )


def check_settings(checkpoint: Checkpoint, resolved: Resolved[TrainSettings]) -> None:
    """Refuse a setting that differs from the checkpoint's, unless it is meant to change."""
    refuse_changes(saved_settings(checkpoint), resolved, checkpoint.header.step)


def refuse_changes(saved: TrainSettings, resolved: Resolved[Any], made: int) -> None:
    """Refuse a setting that differs from the saved one, and a run that is already at its end."""
    now = resolved.values
    free = ", ".join(option_name(name) for name in MAY_CHANGE if name != "data")
    for field in fields(saved):
        before, after = getattr(saved, field.name), getattr(now, field.name)
        if before != after and field.name not in MAY_CHANGE:
            raise BadInput(
                f"the checkpoint's {field.name} = {before}",
                f"{after} ({resolved.sources[field.name]})",
                f"leave it out, or start a new run; only {free} may change, and --data where "
                "the same text has moved",
            )
    if made >= now.steps:
        raise BadInput(
            f"more than the {made} steps already made", f"steps = {now.steps}", "raise --steps"
        )


def check_weights(checkpoint: Checkpoint) -> None:
    """Refuse weights from which no step can be finite."""
    for name, tensor in checkpoint.tensors.items():
        if name.startswith("model.") and not tensor.isfinite().all():
            raise BadInput(
                f"finite weights in {checkpoint.path}",
                f"NaN or infinity in {name.removeprefix('model.')}",
                "start again with a lower --lr",
            )


def check_data(checkpoint: Checkpoint, fingerprint: str, source: str) -> None:
    """Refuse other text than the run was made with."""
    if checkpoint.header.data != fingerprint:
        raise BadInput(
            f"the data that the run was made with (fingerprint {checkpoint.header.data})",
            f"{source} (fingerprint {fingerprint})",
            "give the same text, or start a new run",
        )
