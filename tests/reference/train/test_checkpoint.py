"""Checkpoints."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small import SETTINGS, VOCABULARY, small_loader, small_model

from lossleuth.reference.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from lossleuth.reference.train.checkpoint_check import Header
from lossleuth.reference.train.loop import make_optimizer, train
from lossleuth.reference.train.model import LanguageModel
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.reference.train.tokenizer import CharTokenizer
from lossleuth.types.errors import BadInput

TOKENIZER = CharTokenizer([chr(97 + i) for i in range(VOCABULARY - 2)])


def header(model: LanguageModel, step: int) -> Header:
    shape, settings = asdict(model.shape), asdict(SETTINGS)
    settings |= {name: shape[name] for name in ("dropout", "tied")}
    return Header(step, settings, shape, TOKENIZER.to_json(), "fingerprint")


def saved(path: Path, **changes: Any) -> Path:
    model = small_model(**changes)
    optimizer = make_optimizer(model, SETTINGS)
    for _ in train(model, optimizer, small_loader(), replace(SETTINGS, steps=2)):
        pass
    save_checkpoint(path, header(model, 2), model, optimizer)
    return path


def steps_of(settings: TrainSettings, checkpoint: Checkpoint | None = None) -> Any:
    model = checkpoint.model() if checkpoint else small_model(dropout=0.2)
    optimizer = make_optimizer(model, settings)
    if checkpoint:
        checkpoint.restore_optimizer(model, optimizer)
        checkpoint.restore_random_state()
    first = checkpoint.header.step if checkpoint else 0
    return model, optimizer, train(model, optimizer, small_loader(), settings, first_step=first)


def test_a_resumed_run_continues_bit_for_bit_with_dropout_and_accumulation(tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=10, accumulation=2)
    model, optimizer, steps = steps_of(settings)
    straight = []
    for step in steps:
        straight.append((step.loss, step.norm_before_clip, step.windows))
        if step.step == 3:
            save_checkpoint(tmp_path / "c", header(model, 4), model, optimizer)
    torch.manual_seed(12345)
    again, _, steps = steps_of(settings, load_checkpoint(tmp_path / "c"))
    resumed = [(step.loss, step.norm_before_clip, step.windows) for step in steps]
    assert resumed == straight[4:]
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_without_its_moments_or_random_state_the_run_would_differ(tmp_path: Path) -> None:
    """The test above can fail: leaving out either part changes the losses."""
    settings = replace(SETTINGS, steps=8)
    model, optimizer, steps = steps_of(settings)
    straight = []
    for step in steps:
        straight.append(step.loss)
        if step.step == 3:
            save_checkpoint(tmp_path / "c", header(model, 4), model, optimizer)
    checkpoint = load_checkpoint(tmp_path / "c")
    for forgotten in ("restore_optimizer", "restore_random_state"):
        torch.manual_seed(12345)
        model = checkpoint.model()
        optimizer = make_optimizer(model, settings)
        if forgotten != "restore_optimizer":
            checkpoint.restore_optimizer(model, optimizer)
        if forgotten != "restore_random_state":
            checkpoint.restore_random_state()
        steps = train(model, optimizer, small_loader(), settings, first_step=4)
        assert [step.loss for step in steps] != straight[4:], forgotten


def test_a_checkpoint_before_the_first_update_can_be_resumed(tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=3)
    model, optimizer, steps = steps_of(settings)
    save_checkpoint(tmp_path / "c", header(model, 0), model, optimizer)
    state = torch.get_rng_state()
    straight = [step.loss for step in steps]
    torch.set_rng_state(state)
    _, _, steps = steps_of(settings, load_checkpoint(tmp_path / "c"))
    assert [step.loss for step in steps] == straight


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(saved(tmp_path / "c"))
    assert checkpoint.header.step == 2
    assert checkpoint.tokenizer().size == VOCABULARY
    assert checkpoint.shape == small_model().shape


def test_moments_are_restored_where_their_parameters_are(tmp_path: Path) -> None:
    """A device without memory stands for CUDA, which is not everywhere."""
    # To that device, unlike to CUDA, torch does not move tied weights as one.
    checkpoint = load_checkpoint(saved(tmp_path / "c", tied=False))
    model = checkpoint.model().to("meta")
    optimizer = torch.optim.AdamW(model.parameters())
    checkpoint.restore_optimizer(model, optimizer)
    places = {tensor.device.type for state in optimizer.state.values() for tensor in state.values()}
    assert places == {"meta"}
    assert len(optimizer.state) == len(list(model.parameters()))


def test_restored_moments_are_the_optimizers_own(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(saved(tmp_path / "c"))
    model = checkpoint.model()
    optimizer = make_optimizer(model, SETTINGS)
    checkpoint.restore_optimizer(model, optimizer)
    optimizer.state[model.embedding.weight]["exp_avg"].zero_()
    assert checkpoint.tensors["optimizer.embedding.weight.exp_avg"].any()


def test_a_run_directory_stands_for_its_checkpoint(tmp_path: Path) -> None:
    saved(tmp_path / "checkpoint.safetensors")
    assert load_checkpoint(tmp_path).header.step == 2


@pytest.mark.parametrize("content", [b"", b"text", b"\xff" * 100, b"\x08" + b"\0" * 7 + b"[" * 8])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="expected a lossleuth checkpoint"):
        load_checkpoint(path)


def test_a_safetensors_file_of_another_program_is_refused(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "c")
    with pytest.raises(BadInput, match="lossleuth did not write"):
        load_checkpoint(tmp_path / "c")


def test_a_cut_checkpoint_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "c")
    whole = path.read_bytes()
    for length in (7, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(BadInput, match="expected a lossleuth checkpoint"):
            load_checkpoint(path)


def test_a_missing_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no file at"):
        load_checkpoint(tmp_path)


def test_a_full_disk_keeps_the_old_checkpoint_and_leaves_nothing_half_written(
    tmp_path: Path,
) -> None:
    """In a process that may not write files over 4 kB, which fails just as a full disk does."""
    path = saved(tmp_path / "c")
    old = path.read_bytes()
    program = """
import resource, sys
sys.path[:0] = sys.argv[2:]
from test_checkpoint import header, make_optimizer, small_model, save_checkpoint, SETTINGS, Path
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
model = small_model()
try:
    save_checkpoint(Path(sys.argv[1]), header(model, 9), model, make_optimizer(model, SETTINGS))
except OSError as error:
    print("refused:", error.strerror)
"""
    folders = (Path(__file__).parent, Path(__file__).parents[2] / "support")
    result = subprocess.run(
        [sys.executable, "-c", program, str(path), *map(str, folders)],
        capture_output=True,
        text=True,
    )
    assert result.stdout.startswith("refused:"), result.stderr
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096
