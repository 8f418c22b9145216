"""Where models come from."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import pytest
import torch
from hosts import save_host
from pupil import TEXT, model

from lossleuth.reference.distil.outputs import look
from lossleuth.reference.distil.sources import in_float32, load_source, tied_parameters
from lossleuth.reference.train.model import LanguageModel
from lossleuth.types.errors import BadInput

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    context = 32
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 7)
    def forward(self, tokens):
        return self.table(tokens)

def make():
    return Net().bfloat16()

def number():
    return 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "some_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "some_models", raising=False)
    return tmp_path


def test_a_checkpoint_of_the_trainer(teacher_run: Path) -> None:
    for name in (teacher_run, teacher_run / "checkpoint.safetensors"):
        source = load_source(str(name), "teacher")
        assert isinstance(source.module, LanguageModel) and source.context == 16
        assert source.tokenizer is not None and source.tokenizer.kind == "char"
        assert source.settings is not None and source.settings.steps == 120


def test_a_function_of_the_users_in_float32(here: Path) -> None:
    source = load_source("some_models:make", "student")
    assert source.kind == "python" and source.context == 32 and source.tokenizer is None
    assert {p.dtype for p in source.module.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "a teacher, found none: give --teacher"),
        ("nowhere", "a checkpoint, found no file at nowhere"),
        ("no_such_module:make", "found no_such_module:make: No module named"),
        ("some_models:other", "has no attribute 'other'"),
        ("some_models:number", "a torch module from some_models:number, found int"),
        (":make", "Empty module name"),
    ],
)
def test_what_is_no_model_is_refused_in_a_sentence(here: Path, name: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        load_source(name, "teacher")


def test_a_model_of_hugging_face_from_its_directory(tmp_path: Path) -> None:
    source = load_source(str(save_host(tmp_path, [TEXT])), "teacher")
    assert source.kind == "host" and source.context == 32 and source.tokenizer is not None
    tokens = torch.zeros(1, 5, dtype=torch.long)
    outputs = look(source.module.eval(), tokens, hidden=True, attention=True)
    assert outputs.logits_BTV.shape == (1, 5, source.tokenizer.size)
    assert len(outputs.hidden) == len(outputs.attention) == 2
    assert tied_parameters(source.module) == [["transformer.wte.weight", "lm_head.weight"]]


def test_code_that_a_directory_brings_along_is_not_run(tmp_path: Path) -> None:
    save_host(tmp_path, [TEXT])
    canary = tmp_path / "ran"
    (tmp_path / "modeling.py").write_text(f"open({str(canary)!r}, 'w')\n")
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "modeling.Model"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput, match="which asks for code of its own"):
        load_source(str(tmp_path), "teacher")
    assert not canary.exists()


def test_weights_in_a_pickle_are_not_read(tmp_path: Path) -> None:
    save_host(tmp_path, [TEXT])
    (tmp_path / "model.safetensors").unlink()
    canary = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, (str(canary), "w")

    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(BadInput, match="a causal language model with its tokenizer in"):
        load_source(str(tmp_path), "teacher")
    assert not canary.exists()


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(BadInput, match="a causal language model with its tokenizer in"):
        load_source(str(tmp_path), "teacher")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(BadInput, match=r"a model's config.json in"):
        load_source(str(tmp_path), "teacher")


def test_weights_that_are_tied_stay_tied_in_float32() -> None:
    net = model().bfloat16()
    assert in_float32(net) is net
    assert net.output.weight is net.embedding.weight
    assert net.embedding.weight.dtype == torch.float32
    assert tied_parameters(model(tied=False)) == []
