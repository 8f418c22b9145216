"""Train, evaluate and generate, as a user calls them, in real processes."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

Command = Callable[..., subprocess.CompletedProcess[str]]

TEXT = "she sells sea shells by the sea shore. the shells she sells are sea shells. "
SMALL = [
    *("--layers", "1", "--heads", "2", "--width", "16"),
    *("--context", "16", "--batch", "4", "--steps", "6"),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT * 20)
    return path


def test_train_evaluate_generate_and_resume_work_together(
    lossleuth: Command, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "more.txt").write_text(TEXT * 3)
    (tmp_path / "t.toml").write_text("lr = 0.01\nsteps = 99")
    trained = lossleuth(
        "train", *SMALL, "--config", "t.toml", "--out", "run", "--data", corpus, "more.txt"
    )
    assert trained.returncode == 0, trained.stderr
    shown = [" ".join(line.split()) for line in trained.stdout.splitlines()]
    assert "lr 0.01 file t.toml" in shown
    assert "steps 6 option --steps" in shown
    assert "width 16 option --width" in shown
    assert "clip 1.0 default" in shown
    saved = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert saved["lr"] == {"value": 0.01, "source": "file t.toml"}
    assert saved["steps"] == {"value": 6, "source": "option --steps"}
    assert saved["data"]["value"] == [str(corpus), str(tmp_path / "more.txt")]

    evaluated = lossleuth("evaluate", "run", "--json")
    found = json.loads(evaluated.stdout)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    assert f"{found['loss']:.4f}" in trained.stdout
    elsewhere = json.loads(lossleuth("evaluate", "run", "more.txt", "--json").stdout)
    assert elsewhere["tokens"] == len(TEXT * 3) + 1
    assert elsewhere["unknown_share"] == 0
    (tmp_path / "other.txt").write_text("she SELLS " * 10)
    strange = lossleuth("evaluate", "run", "other.txt")
    # Of every 10 characters the 5 capitals are unknown; the mark at the end is not.
    assert "(101 tokens, 49.50% unknown)" in strange.stdout
    assert "bits per byte undefined (unknown tokens)" in strange.stdout

    written = [
        lossleuth("generate", "run", "--prompt", "she", "--tokens", "30", *more)
        for more in ([], ["--no-cache"])
    ]
    assert written[0].stdout == written[1].stdout
    assert written[0].stdout.startswith("she")
    assert written[0].returncode == 0

    resumed = lossleuth("train", "--resume", "run", "--steps", "8")
    assert resumed.returncode == 0, resumed.stderr
    assert "checkpoint" in resumed.stdout
    assert "option --steps" in resumed.stdout


def assert_refused(result: subprocess.CompletedProcess[str], expected: str) -> None:
    assert result.returncode == 2
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    for word in ("expected", "found", ":"):
        assert word in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("train --data missing.txt", "missing.txt: No such file"),
        ("train --data empty.txt", "empty.txt is empty"),
        ("train --data binary.bin", "byte 0xff at offset 0"),
        ("train --data short.txt", "one window, found the longest has"),
        ("train --data corpus.txt --vocab-size 0", "a value of at least 1 for vocab_size"),
        ("train --data corpus.txt --vocab-size 2", "vocabulary of 3 to"),
        ("train --data corpus.txt --vocab-size 999", "vocabulary of 3 to"),
        ("train --config typo.toml", "did you mean dropout?"),
        ("train --resume nothing", "no file at nothing"),
        ("train --resume corpus.txt", "expected a lossleuth checkpoint"),
        ("evaluate nothing", "no file at nothing"),
        ("generate corpus.txt", "expected a lossleuth checkpoint"),
        ("analyze-vocab missing.txt", "missing.txt: No such file"),
        ("train --heads 3", "a width that the heads divide"),
        ("train --data corpus.txt --out corpus.txt/x", "a directory that can be written to"),
        ("train --data corpus.txt --clip inf", "finite number for clip, found inf: change it"),
        ("train --data corpus.txt --clip inf", "0: no clipping"),
        ("train --data corpus.txt --lr inf", "a finite number for lr"),
        ("train --data corpus.txt --lr nan", "a finite number for lr"),
        ("train --data corpus.txt --tokenizer bpe --vocab-size 99999999999999999999999", "2**63"),
        ("train --data corpus.txt --tokenizer bpe --vocab-size 999999999999999999", "257 to"),
        ("train --data corpus.txt --width 1000000000", "GB of memory"),
        ("train --data corpus.txt --batch 1000000000000", "GB of memory"),
        ("train --data corpus.txt --seed 18446744073709551616", "below 2**63 for seed"),
        ("train --config nul.toml", "text in UTF-8 without NUL for data"),
        ("train --config huge.toml", "a finite number for lr"),
        ("generate corpus.txt --seed 18446744073709551616", "below 2**63 for --seed"),
    ],
)
def test_bad_input_gets_one_plain_sentence(
    refused: Command, corpus: Path, tmp_path: Path, arguments: str, expected: str
) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "binary.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "short.txt").write_text("too short")
    (tmp_path / "typo.toml").write_text("dropuot = 0.1")
    (tmp_path / "nul.toml").write_text('data = ["a\\u0000"]')
    (tmp_path / "huge.toml").write_text("lr = 1" + "0" * 400)
    before = sorted(tmp_path.rglob("*"))
    assert_refused(refused(*arguments.split()), expected)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_is_not_overwritten_unasked(lossleuth: Command, corpus: Path, tmp_path: Path) -> None:
    arguments = ["train", *SMALL, "--out", "run", "--data", corpus]
    assert lossleuth(*arguments).returncode == 0
    assert_refused(lossleuth(*arguments), "--overwrite to replace it")
    assert_refused(lossleuth("train", "--resume", "run"), "more than the 6 steps already made")
    assert_refused(lossleuth("generate", "run", "--top-p", "0"), "--top-p")
    assert lossleuth(*arguments, "--overwrite").returncode == 0


def limited(*prefix: str, run: str, corpus: Path) -> subprocess.CompletedProcess[str]:
    """Train in a process that a tool has put limits on."""
    command = [*prefix, sys.executable, "-m", "lossleuth", "train", *SMALL, "--data", str(corpus)]
    return subprocess.run(
        [*command, "--out", run], cwd=corpus.parent, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not shutil.which("prlimit"), reason="needs prlimit (util-linux)")
def test_a_full_disk_ends_in_one_sentence_and_nothing_half_written(
    corpus: Path, tmp_path: Path
) -> None:
    """No file may grow over 8 kB: the tokens fit, the checkpoint does not."""
    result = limited("prlimit", "--fsize=8192", run="run", corpus=corpus)
    assert_refused(result, "room for run/checkpoint.safetensors, found ")
    assert "older" not in result.stderr
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == ["settings.json", "tokens.bin"]


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv (util-linux)")
def test_a_read_only_directory_is_refused_before_anything_is_done(
    corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    # Root may write anywhere unless it gives that right away.
    away = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    result = limited(*away, run="closed/run", corpus=corpus)
    assert_refused(result, "closed/run: Permission denied: choose another with --out")


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_once_saves_and_twice_stops_at_once(
    corpus: Path, tmp_path: Path, times: int
) -> None:
    command = [sys.executable, "-m", "lossleuth", "train", *SMALL, "--data", str(corpus)]
    process = subprocess.Popen(
        [*command, "--steps", "1000000", "--out", "run", "--record", "--checkpoint-every", "5"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    record = tmp_path / "run" / "record.jsonl"
    deadline = time.monotonic() + 60
    while not (record.exists() and record.stat().st_size > 2000):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Traceback" not in errors
    assert errors.count("\n") == 1
    assert "found Ctrl-C" in errors
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"checkpoint.safetensors", "record.jsonl", "settings.json", "tokens.bin"}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_refusal_leaves_an_existing_run_as_it_was(
    lossleuth: Command, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "b.txt").write_text("another text altogether " * 40)
    (tmp_path / "short.txt").write_text("short")
    run = tmp_path / "run"
    assert lossleuth("train", corpus, *SMALL, "--out", run, "--record").returncode == 0
    shutil.copy(run / "checkpoint.safetensors", run / "best.safetensors")
    before = contents(run)
    for arguments, expected in (
        (["--resume", run, "--width", "32"], "the checkpoint's width = 16, found 32"),
        (["--resume", run, "--steps", "9", "--seed", "1"], "the checkpoint's seed = 0, found 1"),
        (["--resume", run, "--steps", "9", "--tokenizer", "bpe"], "tokenizer = char"),
        (["--resume", run, "--steps", "9", "--data", "b.txt"], "b.txt (fingerprint"),
        (["--resume", run, "--steps", "9", "--out", "x"], "no --out with --resume"),
        (["--resume", run, "--steps", "9", "--overwrite"], "no --overwrite with --resume"),
        (["--resume", run / "best.safetensors", "--steps", "9"], "best.safetensors, beside"),
        (["short.txt", *SMALL, "--out", run, "--overwrite"], "one window, found the longest"),
    ):
        assert_refused(lossleuth("train", *arguments), expected)
        assert contents(run) == before
    moved = corpus.rename(tmp_path / "moved.txt")
    resumed = lossleuth("train", "--resume", run, "--steps", "7", "--data", moved)
    assert resumed.returncode == 0, resumed.stderr


def test_an_overwritten_run_leaves_no_record_behind(
    lossleuth: Command, corpus: Path, tmp_path: Path
) -> None:
    arguments = ["train", corpus, *SMALL, "--out", "run"]
    assert lossleuth(*arguments, "--record").returncode == 0
    assert (tmp_path / "run" / "record.jsonl").exists()
    assert lossleuth(*arguments, "--overwrite").returncode == 0
    assert not (tmp_path / "run" / "record.jsonl").exists()


def test_a_reader_that_goes_away_does_not_end_the_run(corpus: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lossleuth", "train", *SMALL, "--data", str(corpus)]
    process = subprocess.Popen(
        [*command, "--out", "run"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr
    with process.stderr as stream:
        assert stream.read() == b"note: no more output (Broken pipe); training goes on\n"
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_ascii_output_and_names_that_are_not_utf_8(
    lossleuth: Command, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    trained = lossleuth("train", corpus, *SMALL, "--out", "run")
    assert trained.returncode == 0, trained.stderr
    assert "\\xb1" in trained.stdout
    monkeypatch.delenv("PYTHONIOENCODING")
    odd = "odd\udcff.txt"
    shutil.copy(corpus, tmp_path / odd)
    assert_refused(lossleuth("train", odd, *SMALL), "text in UTF-8 without NUL for data")
    assert_refused(lossleuth("generate", "run", "--prompt", "a\udcff"), "UTF-8 without NUL for")
    refused = lossleuth("train", corpus, *SMALL, "--out", "r\udcff")
    assert_refused(refused, "a run directory whose name is UTF-8, found 'r\\udcff'")


def test_data_in_a_folder_whose_name_is_not_utf_8_is_refused(corpus: Path, tmp_path: Path) -> None:
    """The name as given is fine; the absolute one, which the run keeps, is not."""
    folder = tmp_path / "odd\udcff"
    folder.mkdir()
    shutil.copy(corpus, folder / "a.txt")
    command = [sys.executable, "-m", "lossleuth", "train", "a.txt", *SMALL]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert_refused(result, "a data file whose name is UTF-8")
    assert [path.name for path in folder.iterdir()] == ["a.txt"]


def test_a_model_with_nan_weights_is_told_of_by_every_verb(
    lossleuth: Command, corpus: Path, tmp_path: Path
) -> None:
    assert lossleuth("train", corpus, *SMALL, "--out", "run").returncode == 0
    path = tmp_path / "run" / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as stream:
        metadata = stream.metadata()
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    tensors["model.final_norm.bias"].fill_(math.nan)
    save_file(tensors, path, metadata)
    assert "loss nan: what the model computes is not finite" in lossleuth("evaluate", "run").stdout
    written = lossleuth("generate", "run", "--prompt", "she")
    assert_refused(written, "finite numbers from the model")
    assert written.stdout == ""
    resumed = lossleuth("train", "--resume", "run", "--steps", "9")
    assert_refused(resumed, "NaN or infinity in final_norm.bias")


def test_a_model_of_a_cuda_machine_is_used_on_this_one(lossleuth: Command, corpus: Path) -> None:
    assert lossleuth("train", corpus, *SMALL, "--out", "run").returncode == 0
    path = corpus.parent / "run" / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as stream:
        metadata = stream.metadata()
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    metadata["lossleuth"] = metadata["lossleuth"].replace('"device": "auto"', '"device": "cuda"')
    save_file(tensors, path, metadata)
    for verb in ("evaluate", "generate"):
        result = lossleuth(verb, "run")
        assert result.returncode == 0, result.stderr
        assert "the CPU is used" in result.stderr
