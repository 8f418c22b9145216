"""Where a teacher or a student comes from: a checkpoint, a Hugging Face directory, or Python."""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lossleuth.reference.distil.host_tokenizer import HostTokenizer
from lossleuth.reference.train.checkpoint import load_checkpoint
from lossleuth.reference.train.resume import check_weights, saved_settings
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.reference.train.tokenizer import Tokenizer
from lossleuth.types.errors import BadInput


@dataclass(frozen=True)
class Source:
    """A model, how it splits text where that is known, and how much of it it can see."""

    name: str
    kind: str
    module: nn.Module
    tokenizer: Tokenizer | None
    context: int | None
    settings: TrainSettings | None = None
    """How it was trained, where lossleuth did that."""


def load_source(name: str, role: str) -> Source:
    """The model that a user's words stand for, in float32.

    >>> load_source("", "teacher")
    Traceback (most recent call last):
    ...
    lossleuth.types.errors.BadInput: expected a teacher, found none: give --teacher
    """
    if not name:
        raise BadInput(f"a {role}", "none", f"give --{role}")
    path = Path(name)
    if ":" in name and not path.exists():
        return _from_python(name, role)
    if (path / "config.json").is_file():
        return _from_host(path, role)
    checkpoint = load_checkpoint(path)
    check_weights(checkpoint)
    return Source(
        name,
        "checkpoint",
        checkpoint.model(),
        checkpoint.tokenizer(),
        checkpoint.shape.context,
        saved_settings(checkpoint),
    )


def tied_parameters(module: nn.Module) -> list[list[str]]:
    """Names of parameters that are one tensor under several names.

    >>> from lossleuth.reference.train.model import LanguageModel, ModelShape
    >>> tied_parameters(LanguageModel(ModelShape(10, context=8, layers=1, heads=2, width=16)))
    [['embedding.weight', 'output.weight']]
    """
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [shared for shared in names.values() if len(shared) > 1]


def in_float32(module: nn.Module) -> nn.Module:
    """A model whose weights are float32 and tied as before.

    Under mixed precision only products are rounded. A tied embedding gets the gradient of both
    its uses, and small updates to it would be lost in bfloat16's 8 bits.
    """
    before = tied_parameters(module)
    module = module.float()
    if tied_parameters(module) != before:
        raise RuntimeError(f"tied parameters came apart: {before}")
    return module


def _from_python(name: str, role: str) -> Source:
    """What a function of the user's gives: a module, with a `tokenizer` and a `context` or not."""
    module_name, _, function = name.partition(":")
    if os.getcwd() not in sys.path:  # noqa: PTH109  # sys.path holds strings
        sys.path.insert(0, os.getcwd())  # noqa: PTH109  # sys.path holds strings
    try:
        make: Any = getattr(importlib.import_module(module_name), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(
            f"a {role} as run directory or module:function", f"{name}: {error}", "check the name"
        ) from None
    module = make()
    if not isinstance(module, nn.Module):
        raise BadInput(
            f"a torch module from {name}", f"{type(module).__name__}", "return the model itself"
        )
    tokenizer = getattr(module, "tokenizer", None)
    if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
        tokenizer = HostTokenizer(tokenizer)
    context = getattr(module, "context", None)
    return Source(
        name,
        "python",
        in_float32(module),
        tokenizer,
        context if isinstance(context, int) else None,
    )


def _from_host(path: Path, role: str) -> Source:
    """A causal language model of Hugging Face, from files only and without running their code."""
    try:
        import transformers
    except ImportError:
        raise BadInput(
            f"the package transformers for {path}",
            "that it is not installed",
            "pip install 'lossleuth[hosts]'",
        ) from None
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"a model's config.json in {path}", f"{error}", "check the file") from None
    if isinstance(config, dict) and "auto_map" in config:
        raise BadInput(
            f"a {role} of a kind that transformers itself knows",
            f"{path / 'config.json'}, which asks for code of its own (auto_map)",
            "give it as module:function if you trust that code",
        )
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            path,
            # Pickles can run code; eager attention is the one that says where it looked.
            use_safetensors=True,
            attn_implementation="eager",
            dtype=torch.float32,
            **options,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        first = str(error).strip().split("\n")[0]
        raise BadInput(
            f"a causal language model with its tokenizer in {path}",
            first,
            "save both there with save_pretrained",
        ) from None
    context = getattr(model.config, "max_position_embeddings", None)
    return Source(
        str(path),
        "host",
        in_float32(model),
        HostTokenizer(tokenizer, int(model.config.vocab_size)),
        context if isinstance(context, int) else None,
    )
