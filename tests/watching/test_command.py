"""Real programs, run bare and watched: the same output to the last bit, and the right record."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from lossleuth.findings.data import Alignment
from lossleuth.findings.gradient import CustomFunction, GradientTruth
from lossleuth.findings.model import Leaks
from lossleuth.findings.update import UpdateTruth
from lossleuth.observe.steps.step_writer import MAX_WAIT_SECONDS
from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import recorded_steps

PROGRAMS = Path(__file__).parents[1] / "programs"
# What a library prints of its own speed differs from run to run without us, too.
TIMES = re.compile(r"'(train_runtime|train_\w+_per_second)': '?[\d.e-]+'?")


@dataclass(frozen=True)
class Watched:
    """A program's record, and what it printed bare and watched."""

    record: Record
    bare: subprocess.CompletedProcess[str]
    output: subprocess.CompletedProcess[str]


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def watched(name: str, folder: Path, *options: str) -> Watched:
    script = str(PROGRAMS / f"{name}.py")
    bare = run(script, folder=folder)
    output = run("-m", "lossleuth", "watch", "--out", "run", *options, script, folder=folder)
    assert bare.returncode == 0, bare.stderr
    assert output.returncode == 0, output.stderr
    return Watched(Record.open(folder / "run"), bare, output)


# Programs whose gradients are the engine's own, and what is known of their tokens.
_KNOWN = (
    *("plain", "accumulation", "amp", "checkpointed", "compiled", "two_optimizers"),
    *("manual_data", "hf_trainer", "lightning_loop", "accelerated", "peft_lora"),
)
TAPED = dict.fromkeys((*_KNOWN, "trl_sft"), 1)


def assert_taped_steps_are_healthy(record: Record, name: str) -> None:
    """On two recorded steps: true gradients, true updates, no leak, targets one ahead."""
    taped = recorded_steps(record, ["tape"])
    assert [found.step for found in taped] == [1, 3]
    for found in taped:
        assert not found.errored
        assert found.all(GradientTruth) and not found.reasons(GradientTruth)
        for truth in found.all(GradientTruth):
            assert truth.error < 10 * truth.floor
            assert truth.error < (1e-2 if name == "amp" else 1e-5)
        for call in found.all(CustomFunction):
            assert call.error < 10 * call.floor
        assert not found.reasons(UpdateTruth)
        for update in found.all(UpdateTruth):
            assert update.error < 10 * update.floor
        assert [alignment.offset for alignment in found.all(Alignment)] == [TAPED[name]]
        if TAPED[name] is not None:
            assert [(leaks.future, leaks.batch) for leaks in found.all(Leaks)] == [(0, 0)]


@pytest.mark.parametrize(
    ("name", "steps", "backwards", "updated_by", "tokens", "supervised"),
    [
        ("plain", 12, 1, ["AdamW"], 128, 128),
        pytest.param("accumulation", 6, 3, ["Adam"], 384, None, marks=pytest.mark.slow),
        pytest.param("amp", 10, 1, None, 128, 128, marks=pytest.mark.slow),
        pytest.param("checkpointed", 8, 1, ["SGD"], 128, 128, marks=pytest.mark.slow),
        ("compiled", 6, 1, ["AdamW"], None, 128),
        # Compiling takes most of a minute; `test_compiled.py` has smaller programs.
        pytest.param("compiled_step", 6, 1, ["AdamW"], None, None, marks=pytest.mark.slow),
        pytest.param("compiled_update", 8, 1, None, 128, 128, marks=pytest.mark.slow),
        pytest.param(
            "two_optimizers", 6, 2, ["AdamW", "SGD", "Adam"], 128, 128, marks=pytest.mark.slow
        ),
        pytest.param("closure", 4, None, ["LBFGS"], None, None, marks=pytest.mark.slow),
        pytest.param("manual_no_grad", 6, 1, ["by hand"], 128, 128, marks=pytest.mark.slow),
        pytest.param("manual_data", 6, 2, ["by hand"], 256, 256, marks=pytest.mark.slow),
        ("hand_gradient", 6, 0, ["SGD"], None, None),
        pytest.param("loader", 16, 1, ["NAdam"], 128, 128, marks=pytest.mark.slow),
        ("hf_trainer", 8, 2, ["AdamW"], 136, 128),
        ("lightning_loop", 8, 1, ["AdamW"], 128, 128),
        pytest.param("accelerated", 4, 2, ["AdamW"], 256, 256, marks=pytest.mark.slow),
        pytest.param("peft_lora", 6, 1, ["AdamW"], 128, 120, marks=pytest.mark.slow),
        # Its imports alone take ten seconds, and its loop is that of hf_trainer.
        pytest.param("trl_sft", 6, 1, ["AdamW"], 68, None, marks=pytest.mark.slow),
    ],
)
def test_a_program_runs_as_without_us_and_its_steps_are_recorded(
    tmp_path: Path,
    name: str,
    steps: int,
    backwards: int | None,
    updated_by: list[str] | None,
    tokens: int | None,
    supervised: int | None,
) -> None:
    seen = watched(name, tmp_path, "--tape", "1", "--tape", "3")
    assert TIMES.sub("", seen.output.stdout) == TIMES.sub("", seen.bare.stdout)
    assert "internal error" not in seen.output.stderr
    record = seen.record
    assert record.state == "ended"
    assert record.steps.tolist() == list(range(steps))
    if backwards is not None:
        assert set(record.series("backwards")) == {backwards}
    if updated_by is not None:
        assert record.values("updated_by") == [updated_by] * steps
    if tokens is not None:
        assert set(record.series("tokens")) == {tokens}
    if supervised is not None:
        assert set(record.series("supervised")) == {supervised}
    # Every parameter that was updated has readings, and something moved.
    moved = record.matrix("update_rms", slice(1, None))
    assert np.nanmax(moved) > 0
    assert np.isfinite(record.matrix("grad_rms", slice(-1, None))).any()
    if name in TAPED:
        assert_taped_steps_are_healthy(record, name)


def test_losses_reads_rates_and_clipping_are_those_of_the_program(tmp_path: Path) -> None:
    seen = watched("plain", tmp_path)
    printed = [float(line) for line in seen.bare.stdout.split()]
    record = seen.record
    assert record.series("loss").tolist() == printed
    reads = [read[0][0] for read in record.values("reads")]
    assert reads == printed
    assert {len(read) for read in record.values("reads")} == {1}
    line = (PROGRAMS / "plain.py").read_text().splitlines().index("    print(loss.item())") + 1
    assert record.values("reads")[0][0][1].endswith(f"plain.py:{line}")
    places = record.values("places")[0]
    assert places["backward"].endswith("plain.py:" + str(line - 4))
    assert places["update"].endswith("plain.py:" + str(line - 2))
    cosine = [3e-3 * (1 + np.cos(np.pi * k / 12)) / 2 for k in range(12)]
    assert record.series("lr") == pytest.approx(cosine)
    norms, before = record.series("grad_norm"), record.series("grad_norm_before_clip")
    assert norms == pytest.approx(np.minimum(before, 0.5), rel=1e-4)
    assert (before > 0.5).any()
    assert record.series("clip_cosine") == pytest.approx(1.0)
    assert record.parameter_series("head.bias", "age").tolist() == list(range(1, 13))
    assert "blocks.1.qkv.weight" in record.parameter_names


def test_a_skipped_update_names_who_skipped_it_and_the_loss_is_unscaled(tmp_path: Path) -> None:
    seen = watched("amp", tmp_path)
    skipped = seen.record.values("skipped_by")
    assert skipped[0] == ["GradScaler"]
    assert skipped[-1] is None
    printed = [float(line) for line in seen.bare.stdout.split()]
    assert seen.record.series("loss").tolist() == printed
    assert seen.record.series("loss_scale")[0] == 2.0**127


def test_clipping_by_value_turns_the_gradient(tmp_path: Path) -> None:
    record = watched("loader", tmp_path).record
    assert (record.series("clip_cosine") < 0.999).all()
    assert (record.series("grad_norm_before_clip") > record.series("grad_norm")).all()


def test_files_packages_settings_and_header_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(range(32)) * 8)
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\n"
        "data = torch.tensor(list(open('data.bin', 'rb').read()))\n"
        "layer = torch.nn.Embedding(32, 8)\n"
        "optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.5)\n"
        "schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7)\n"
        "for _ in range(3):\n"
        "    layer(data).square().sum().backward()\n"
        "    optimizer.step()\n"
        "    schedule.step()\n"
        "print(sys.argv, __name__)\n"
    )
    output = run("-m", "lossleuth", "watch", "--out", "r", "train.py", "--x", "1", folder=tmp_path)
    assert output.stdout == "['train.py', '--x', '1'] __main__\n"
    record = Record.open(tmp_path / "r")
    assert record.header["arguments"] == ["--x", "1"]
    assert record.header["script"] == str(script)
    (provenance,) = record.events("provenance")
    assert str(tmp_path / "data.bin") in provenance.data["files_read"]
    assert "torch" in provenance.data["packages"]
    settings = record.events("settings")[-1].data
    assert settings["optimizers"][0]["groups"][0]["momentum"] == 0.5
    assert settings["schedulers"][0]["settings"]["step_size"] == 7


def test_weights_and_tokens_are_traced_to_their_files(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 50, 4000)
    numbers.astype(np.uint16).tofile(tmp_path / "shard.bin")
    (tmp_path / "train.py").write_text(
        "import os, numpy as np, torch\n"
        "from torch import nn\n"
        "model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50))\n"
        "if not os.path.exists('start.pt'):\n"
        "    torch.save(model.state_dict(), 'start.pt')\n"
        "    raise SystemExit\n"
        "model.load_state_dict(torch.load('start.pt'))\n"
        "data = np.memmap('shard.bin', dtype=np.uint16, mode='r')\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "for start in (700, 1400):\n"
        "    x = torch.from_numpy(data[start:start + 33].astype(np.int64))\n"
        "    nn.functional.cross_entropy(model(x[:-1]), x[1:]).backward()\n"
        "    optimizer.step()\n"
    )
    run("train.py", folder=tmp_path)
    run("-m", "lossleuth", "watch", "--out", "r", "train.py", folder=tmp_path)
    origins = Record.open(tmp_path / "r").events("origins")[0].data
    weights, tokens = origins["weights"], origins["tokens"]
    assert [(Path(f["file"]).name, f["share"]) for f in weights["files"]] == [("start.pt", 1.0)]
    assert Path(tokens["file"]).name == "shard.bin"
    assert (tokens["dtype"], tokens["offset"], tokens["runs_found"]) == ("uint16", 1400, 2)


def test_activations_are_recorded_on_demand(tmp_path: Path) -> None:
    script = str(PROGRAMS / "plain.py")
    run("-m", "lossleuth", "watch", "--activations", "--out", "r", script, folder=tmp_path)
    events = Record.open(tmp_path / "r").events("activations")
    assert len(events) == 12
    modules = events[0].data["modules"]
    assert "blocks.0.qkv" in modules
    assert all(rms > 0 for rms, _, _ in modules.values())


def leaving(tmp_path: Path, ending: str, **more: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, signal, sys, time, torch\n"
        "weight = torch.ones(3, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "for _ in range(3):\n"
        "    weight.square().sum().backward()\n"
        "    optimizer.step()\n"
        # A process that is killed can take the steps of its last moments with it.
        f"    time.sleep({MAX_WAIT_SECONDS * 1.2})\n" + ending
    )
    return run("-m", "lossleuth", "watch", "--out", "r", "train.py", folder=tmp_path)


@pytest.mark.parametrize(
    ("ending", "code", "how"),
    [
        ("sys.exit(7)\n", 7, {"how": "sys.exit", "code": 7}),
        pytest.param("sys.exit('no')\n", 1, {"how": "sys.exit", "code": 1}, marks=pytest.mark.slow),
        ("raise ValueError('bad')\n", 1, {"how": "exception", "error": "ValueError: bad"}),
        ("raise KeyboardInterrupt\n", -2, {"how": "KeyboardInterrupt"}),
        ("os._exit(5)\n", 5, None),
        ("os.kill(os.getpid(), signal.SIGKILL)\n", -9, None),
        pytest.param("os.kill(os.getpid(), signal.SIGTERM)\n", -15, None, marks=pytest.mark.slow),
        ("os.kill(os.getpid(), signal.SIGSEGV)\n", -11, None),
    ],
)
def test_a_script_leaves_as_without_us_and_the_record_says_how(
    tmp_path: Path, ending: str, code: int, how: dict[str, object] | None
) -> None:
    output = leaving(tmp_path, ending)
    bare = run("train.py", folder=tmp_path)
    assert output.returncode == bare.returncode == code
    record = Record.open(tmp_path / "r")
    if how is not None:
        assert record.ended is not None
        assert how.items() <= record.ended.items()
        assert len(record.steps) == 3
    else:
        assert record.state == "ended abnormally at step 1"
        assert "killed by" in output.stderr or "exit code 5" in output.stderr
    if "raise ValueError" in ending:
        assert bare.stderr in output.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "expected a Python script, found no file at train.py"),
        ("this is (not python", "which Python cannot parse at line 1"),
        ("print('no torch')", "before torch was imported"),
        ("import torch\nprint('no training')", "without a training step"),
        ("import torch\nfor _ in range(0): pass", "without a training step"),
    ],
)
def test_a_script_that_cannot_be_watched_gets_a_sentence_and_exit_code_2(
    tmp_path: Path, text: str | None, expected: str
) -> None:
    if text is not None:
        (tmp_path / "train.py").write_text(text)
    output = run("-m", "lossleuth", "watch", "train.py", folder=tmp_path)
    assert output.returncode == 2
    assert expected in output.stderr
    assert "Traceback" not in output.stderr


def test_a_script_that_fails_at_import_keeps_its_own_exit_code_and_traceback(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text("import torch\nimport no_such_module\n")
    output = run("-m", "lossleuth", "watch", "train.py", folder=tmp_path)
    bare = run("train.py", folder=tmp_path)
    assert output.returncode == bare.returncode == 1
    assert bare.stderr in output.stderr


def test_spawned_processes_are_recorded_beside_the_run_and_forked_ones_write_nothing(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import multiprocessing, torch\n"
        "def work(rank):\n"
        "    weight = torch.ones(3, requires_grad=True)\n"
        "    optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "    for _ in range(2 + rank):\n"
        "        weight.square().sum().backward()\n"
        "        optimizer.step()\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'fork'):\n"
        "        context = multiprocessing.get_context(method)\n"
        "        workers = [context.Process(target=work, args=(rank,)) for rank in range(2)]\n"
        "        [w.start() for w in workers], [w.join() for w in workers]\n"
        "    work(5)\n"
    )
    output = run("-m", "lossleuth", "watch", "--out", "r", "train.py", folder=tmp_path)
    assert output.returncode == 0, output.stderr
    assert len(Record.open(tmp_path / "r").steps) == 7
    logs = sorted((tmp_path / "r" / "processes").glob("*"))
    assert sorted(len(Record.open(log).steps) for log in logs) == [2, 3]
    assert "2 child processes were also recorded" in output.stderr
