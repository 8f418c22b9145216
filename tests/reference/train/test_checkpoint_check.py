"""Damaged and foreign checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from small import SETTINGS, VOCABULARY, small_model

from lossleuth.reference.train.checkpoint import load_checkpoint, save_checkpoint
from lossleuth.reference.train.checkpoint_check import HEADER_FIELDS, SHAPE_FIELDS, Header
from lossleuth.reference.train.loop import make_optimizer
from lossleuth.reference.train.tokenizer import CharTokenizer
from lossleuth.types.errors import BadInput

PIECES = [chr(97 + i) for i in range(VOCABULARY - 2)]

Change = Callable[[dict[str, Any], dict[str, Any]], object]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "checkpoint.safetensors"
    model = small_model()
    tokenizer = CharTokenizer(PIECES).to_json()
    header = Header(2, asdict(SETTINGS), asdict(model.shape), tokenizer, "fingerprint")
    save_checkpoint(path, header, model, make_optimizer(model, SETTINGS))
    return path


def damaged(path: Path, change: Change) -> Path:
    """A copy of the checkpoint with its header and tensors changed."""
    with safe_open(path, framework="pt") as stream:
        header = json.loads(stream.metadata()["lossleuth"])
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    change(header, tensors)
    copy = path.with_name("damaged.safetensors")
    save_file(tensors, copy, {"lossleuth": json.dumps(header)})
    return copy


def drop(name: str) -> Change:
    return lambda header, tensors: tensors.pop(name)


def put(**fields: Any) -> Change:
    return lambda header, tensors: header.update(fields)


def inside(table: str, **fields: Any) -> Change:
    return lambda header, tensors: header[table].update(fields)


def turned(name: str, turn: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda header, tensors: tensors.update({name: turn(tensors[name]).contiguous()})


def retyped(name: str, dtype: torch.dtype) -> Change:
    return turned(name, lambda tensor: tensor.to(dtype))


MOMENT = "optimizer.final_norm.bias.exp_avg"
DAMAGES: list[tuple[Change, str]] = [
    (put(version=99), "format version 99, this release reads 2"),
    (put(version=1), "format version 1, this release reads 2"),
    (put(surprise=1), "a header with other fields .surprise."),
    (lambda header, tensors: header.pop("settings"), "a header with other fields .settings."),
    (put(step="x"), "'x' as step in the header instead of a whole number"),
    (put(step=None), "None as step"),
    (put(step=-5), "-5 as step"),
    (put(step=True), "True as step"),
    (put(step=2.0), "2.0 as step"),
    (put(bad_steps=-1), "-1 as bad_steps"),
    (put(data=7), "7 as data"),
    (put(settings=[1]), "as settings in the header instead of a table"),
    (put(settings=None), "None as settings"),
    (put(shape=[1]), "as shape in the header instead of a table"),
    (put(tokenizer="char"), "as tokenizer in the header instead of a table"),
    (put(tokenizer=CharTokenizer("ab").to_json()), "a tokenizer of 4 tokens with a model for"),
    (put(tokenizer={"kind": "char"}), "expected a tokenizer"),
    (put(tokenizer={"kind": "bpe", "definition": "{}"}), "expected a tokenizer"),
    (inside("tokenizer", kind="word", pieces=list(range(18))), "the word piece 0"),
    (inside("tokenizer", pieces=["ab", *PIECES[1:]]), "2 characters in the char piece"),
    (inside("settings", lr="fast"), "settings that cannot be .'fast' instead of a number for lr"),
    (inside("settings", lr="Infinity"), "settings that cannot be"),
    (inside("settings", gone=1), "settings that cannot be"),
    (inside("settings", heads=3), "settings that cannot be"),
    (inside("settings", context=8), "context 16 in the shape but 8 in the settings"),
    (inside("shape", context="64"), "'64' as context in the shape"),
    (inside("shape", context=32), "context 32 in the shape but 16 in the settings"),
    (inside("shape", dropout="a"), "'a' as dropout"),
    (inside("shape", dropout=2), "2 as dropout"),
    (inside("shape", dropout=float("nan")), "nan as dropout"),
    (inside("shape", heads=-2), "-2 as heads"),
    (inside("shape", heads=0), "0 as heads"),
    (inside("shape", width=17), "width 17 in the shape but 16"),
    (inside("shape", width="wide"), "'wide' as width"),
    (inside("shape", tied=1), "1 as tied"),
    (inside("shape", positions=None), "None as positions"),
    (inside("shape", surprise=1), "a shape with other fields"),
    (lambda header, tensors: header["shape"].pop("tied"), "a shape with other fields .tied."),
    (inside("shape", vocabulary=10**12), "with a model for"),
    (
        lambda header, tensors: [header[t].update(layers=3) for t in ("shape", "settings")],
        "no tensor model.blocks.2",
    ),
    (
        lambda header, tensors: [header[t].update(layers=10**9) for t in ("shape", "settings")],
        "layers but only",
    ),
    (
        lambda header, tensors: [
            header[t].update(context=10**12, positions="learned") for t in ("shape", "settings")
        ],
        "no tensor model.position.weight",
    ),
    (drop("model.final_norm.bias"), "no tensor model.final_norm.bias"),
    (drop(MOMENT), "no tensor optimizer"),
    (drop("random.torch"), "no tensor random.torch"),
    (turned("model.blocks.0.up.weight", lambda t: t[..., :-1]), "instead of F32"),
    (turned("random.torch", lambda t: t[:100]), r"random.torch as U8 \(100,\) instead of"),
    (retyped("random.torch", torch.float32), "random.torch as F32"),
    (retyped(MOMENT, torch.float16), f"{MOMENT} as F16"),
    (retyped("model.final_norm.bias", torch.int32), "model.final_norm.bias as I32"),
    (
        lambda header, tensors: tensors.update({"random.cuda": torch.zeros(3)}),
        "random.cuda as F32",
    ),
    (
        lambda header, tensors: tensors.update({"../../x": torch.zeros(1)}),
        "do not belong there",
    ),
]


@pytest.mark.parametrize(("change", "reason"), DAMAGES, ids=[reason for _, reason in DAMAGES])
def test_a_damaged_checkpoint_is_refused_with_the_reason(
    sound: Path, change: Change, reason: str
) -> None:
    with pytest.raises(BadInput, match=reason) as refusal:
        load_checkpoint(damaged(sound, change))
    assert "\n" not in str(refusal.value)


def test_the_undamaged_checkpoint_is_read(sound: Path) -> None:
    copy = damaged(sound, lambda header, tensors: None)
    assert load_checkpoint(copy).header == load_checkpoint(sound).header


def test_a_checkpoint_from_before_the_loss_kernels_goes_on_as_it_was_made(sound: Path) -> None:
    def age(header: dict[str, Any], _tensors: dict[str, Any]) -> None:
        header["settings"].pop("loss_kernel")

    assert SETTINGS.loss_kernel == "auto"
    assert load_checkpoint(damaged(sound, age)).header.settings["loss_kernel"] == "torch"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
places = [
    *((None, name) for name in HEADER_FIELDS),
    *(("shape", name) for name in SHAPE_FIELDS),
    *(("settings", name) for name in asdict(SETTINGS)),
    *(("tokenizer", name) for name in ("kind", "pieces", "definition")),
]


@given(place=st.sampled_from(places), value=anything)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_a_field_holds_it_is_read_whole_or_refused(
    sound: Path, place: tuple[str | None, str], value: Any
) -> None:
    """No value of any field leads to anything but a sound checkpoint or one sentence."""
    table, name = place

    def change(header: dict[str, Any], tensors: dict[str, Any]) -> None:
        (header[table] if table else header)[name] = value

    try:
        checkpoint = load_checkpoint(damaged(sound, change))
    except BadInput:
        return
    assert checkpoint.model().shape == checkpoint.shape
    assert checkpoint.tokenizer().size == VOCABULARY
