"""What a resumed run may change."""

from __future__ import annotations

import math
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small import SETTINGS, small_model

from lossleuth.reference.train.checkpoint import Checkpoint
from lossleuth.reference.train.checkpoint_check import Header
from lossleuth.reference.train.resume import (
    MAY_CHANGE,
    check_data,
    check_place,
    check_settings,
    check_weights,
    saved_settings,
)
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.settings import Resolved
from lossleuth.types.errors import BadInput

OTHER: dict[str, Any] = {
    "data": ("other.txt",),
    "tokenizer": "word",
    "vocab_size": 20,
    "validation_share": 0.25,
    "stride": 3,
    "positions": "learned",
    "tied": False,
    "dropout": 0.5,
    "lr_floor": 0.5,
    "beta1": 0.5,
    "beta2": 0.5,
    "precision": "bfloat16",
    "compile": True,
    "loss_kernel": "torch",
    "device": "cpu",
}


def checkpoint(path: str = "run/checkpoint.safetensors") -> Checkpoint:
    model = small_model()
    header = Header(3, asdict(SETTINGS), asdict(model.shape), {}, "fingerprint")
    tensors = {f"model.{name}": p.detach() for name, p in model.named_parameters()}
    return Checkpoint(Path(path), header, tensors)


def resolved(settings: TrainSettings) -> Resolved[TrainSettings]:
    sources = {field.name: f"option of {field.name}" for field in fields(settings)}
    return Resolved(settings, sources)


@pytest.mark.parametrize("name", [field.name for field in fields(TrainSettings)])
def test_only_what_is_meant_to_change_may_change(name: str) -> None:
    before = getattr(SETTINGS, name)
    after = OTHER[name] if name in OTHER else before * 2 + (not before)
    assert after != before
    changed = resolved(replace(SETTINGS, **{name: after}))
    if name in MAY_CHANGE:
        check_settings(checkpoint(), changed)
        return
    with pytest.raises(BadInput) as refusal:
        check_settings(checkpoint(), changed)
    sentence = str(refusal.value)
    assert f"the checkpoint's {name} = {before}, found {after} (option of {name})" in sentence
    assert "only --steps, --evaluate-every, --checkpoint-every," in sentence


def test_what_was_saved_may_be_said_again() -> None:
    check_settings(checkpoint(), resolved(SETTINGS))
    assert saved_settings(checkpoint()) == SETTINGS


def test_a_run_that_is_done_needs_more_steps() -> None:
    with pytest.raises(BadInput, match="more than the 3 steps already made, found steps = 3"):
        check_settings(checkpoint(), resolved(replace(SETTINGS, steps=3)))


def test_a_resumed_run_stays_where_it_is() -> None:
    check_place(checkpoint(), None, overwrite=False)
    with pytest.raises(BadInput, match="no --out with --resume, found --out other"):
        check_place(checkpoint(), Path("other"), overwrite=False)
    with pytest.raises(BadInput, match="no --overwrite with --resume"):
        check_place(checkpoint(), None, overwrite=True)
    with pytest.raises(BadInput, match=r"found run/best\.safetensors, beside which"):
        check_place(checkpoint("run/best.safetensors"), None, overwrite=False)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(value: float) -> None:
    saved = checkpoint()
    check_weights(saved)
    with torch.no_grad():
        saved.tensors["model.final_norm.bias"][0] = value
    with pytest.raises(BadInput, match=r"NaN or infinity in final_norm\.bias"):
        check_weights(saved)


def test_other_data_is_refused() -> None:
    check_data(checkpoint(), "fingerprint", "a.txt")
    with pytest.raises(BadInput, match=r"found b\.txt \(fingerprint another\)"):
        check_data(checkpoint(), "another", "b.txt")
