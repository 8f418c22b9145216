"""The verb of the distiller."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.settings import option_name, rules

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_every_setting_is_an_option(lossleuth: Command) -> None:
    text = lossleuth("distil", "--help").stdout
    squeezed = " ".join(text.split())
    for name, rule in rules(DistilSettings).items():
        assert option_name(name) in text
        assert rule.help in squeezed


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "expected a teacher, found none"),
        (("--temperature", "0"), "expected a value above 0 for temperature, found 0.0"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(
    lossleuth: Command, options: tuple[str, ...], reason: str
) -> None:
    done = lossleuth("distil", *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"lossleuth: {reason}")
    assert done.stderr.count("\n") == 1


def test_a_student_is_taught_and_can_be_evaluated(lossleuth: Command, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("she sells sea shells by the sea shore. " * 40)
    small = ("--context", "16", "--batch", "4", "--heads", "2", "--width", "16", "--warmup", "2")
    taught = ("--data", "text.txt", *small)
    assert lossleuth("train", *taught, "--steps", "20", "--out", "large").returncode == 0
    done = lossleuth(
        "distil", "--teacher", "large", *taught, "--layers", "1", "--steps", "6", "--out", "small"
    )
    assert done.returncode == 0, done.stderr
    assert "curriculum" in done.stdout and "share of gradient" in done.stdout
    assert lossleuth("evaluate", "small").stdout.startswith("loss ")
