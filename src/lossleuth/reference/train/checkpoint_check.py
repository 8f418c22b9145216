"""What a checkpoint must hold to be believed: its header field by field, and its tensors.

A file may be damaged, or written by anybody. Whatever is wrong with it is found here, before a
model is made of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lossleuth.reference.train.model import ModelShape
from lossleuth.reference.train.oracle import parameter_shapes
from lossleuth.reference.train.settings import TrainSettings, as_it_was
from lossleuth.reference.train.tokenizer import load_tokenizer
from lossleuth.settings import resolve
from lossleuth.types.errors import BadInput

# 2: documents are split by characters, and steps that were not applied are counted.
VERSION = 2
MOMENTS = ("step", "exp_avg", "exp_avg_sq")

FLOAT32, BYTES = "F32", "U8"
# Sizes of the states of torch's generators.
RANDOM_SIZES = {"random.torch": (5056,), "random.cuda": (16,)}

TensorKind = tuple[str, tuple[int, ...]]
"""A tensor's type, as safetensors calls it, and its shape."""


@dataclass(frozen=True)
class Header:
    """What a checkpoint says about itself."""

    step: int
    settings: Mapping[str, Any]
    shape: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    data: str
    bad_steps: int = 0
    version: int = VERSION


def read_header(path: Path, metadata: Mapping[str, str]) -> Header:
    """The header in a file's metadata, if all of it can be."""
    if "lossleuth" not in metadata:
        raise refused(path, "a safetensors file that lossleuth did not write")
    try:
        saved = json.loads(metadata["lossleuth"])
        version = saved["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise refused(path, "a header that is not lossleuth's") from None
    if version != VERSION:
        raise refused(path, f"format version {version!r}, this release reads {VERSION}")
    _check_fields(path, "header", saved, HEADER_FIELDS)
    _check_fields(path, "shape", saved["shape"], SHAPE_FIELDS)
    header = Header(**saved | {"settings": as_it_was(saved["settings"])})
    _check_settings(path, header)
    return header


def check_tensors(path: Path, header: Header, found: Mapping[str, TensorKind]) -> None:
    """Every tensor that the header's model needs is there as it must be, and nothing else is."""
    try:
        shape = ModelShape(**header.shape)
    except ValueError as error:
        raise refused(path, f"a model shape that cannot be ({error})") from None
    # A header may claim any depth; the file has at least one tensor per layer.
    if shape.layers > len(found):
        raise refused(path, f"{shape.layers} layers but only {len(found)} tensors")
    vocabulary = load_tokenizer(header.tokenizer).size
    if vocabulary != shape.vocabulary:
        raise refused(
            path, f"a tokenizer of {vocabulary} tokens with a model for {shape.vocabulary}"
        )
    expected = _expected_tensors(shape)
    for name, wanted in expected.items():
        if name not in found and name != "random.cuda":
            raise refused(path, f"no tensor {name}")
        if name in found and found[name] != wanted:
            raise refused(path, f"{name} as {_shown(found[name])} instead of {_shown(wanted)}")
    extra = set(found) - set(expected)
    if extra:
        raise refused(path, f"tensors that do not belong there: {sorted(extra)[:3]}")


def refused(path: Path, found: str) -> BadInput:
    """The refusal of a file that is no sound checkpoint."""
    return BadInput(
        f"a lossleuth checkpoint at {path}", found, "use one that `lossleuth train` wrote"
    )


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and value >= least


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1


Field = tuple[Callable[[Any], bool], str]

HEADER_FIELDS: Mapping[str, Field] = {
    "step": (_whole(0), "a whole number of at least 0"),
    "settings": (_is_table, "a table"),
    "shape": (_is_table, "a table"),
    "tokenizer": (_is_table, "a table"),
    "data": (_is_text, "text"),
    "bad_steps": (_whole(0), "a whole number of at least 0"),
    "version": (_whole(1), "a whole number"),
}
SHAPE_FIELDS: Mapping[str, Field] = {
    **dict.fromkeys(
        ("vocabulary", "context", "layers", "heads", "width"),
        (_whole(1), "a whole number of at least 1"),
    ),
    "positions": (_is_text, "text"),
    "tied": (lambda value: isinstance(value, bool), "true or false"),
    "dropout": (_is_share, "a share below 1"),
}


def _check_fields(
    path: Path, where: str, found: Mapping[str, Any], fields: Mapping[str, Field]
) -> None:
    """Exactly these fields, each of its kind."""
    if found.keys() != fields.keys():
        others = sorted(found.keys() ^ fields.keys())
        raise refused(path, f"a {where} with other fields ({', '.join(others)[:100]})")
    for name, (fits, kind) in fields.items():
        if not fits(found[name]):
            shown = repr(found[name])[:40]
            raise refused(path, f"{shown} as {name} in the {where} instead of {kind}")


def _check_settings(path: Path, header: Header) -> None:
    """The settings are a run's, and of the model that the shape describes."""
    try:
        settings = resolve(TrainSettings, options={}, saved=header.settings).values
    except BadInput as refusal:
        raise refused(
            path, f"settings that cannot be ({refusal.found} instead of {refusal.expected})"
        ) from None
    for name, value in header.shape.items():
        if name != "vocabulary" and getattr(settings, name) != value:
            raise refused(
                path, f"{name} {value} in the shape but {getattr(settings, name)} in the settings"
            )


def _expected_tensors(shape: ModelShape) -> dict[str, TensorKind]:
    """Type and shape of every tensor that may be there; all but the CUDA state must."""
    kinds: dict[str, TensorKind] = {name: (BYTES, size) for name, size in RANDOM_SIZES.items()}
    for name, size in parameter_shapes(shape).items():
        kinds[f"model.{name}"] = (FLOAT32, size)
        for moment in MOMENTS:
            kinds[f"optimizer.{name}.{moment}"] = (FLOAT32, () if moment == "step" else size)
    return kinds


def _shown(kind: TensorKind) -> str:
    return f"{kind[0]} {kind[1]}"
