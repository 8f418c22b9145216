"""The verbs of the trainer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from lossleuth.reference.train.settings import TrainSettings
from lossleuth.settings import option_name, rules

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_every_setting_is_an_option_with_its_default(lossleuth: Command) -> None:
    text = lossleuth("train", "--help").stdout
    squeezed = " ".join(text.split())
    for name, rule in rules(TrainSettings).items():
        assert option_name(name) in text
        assert rule.help in squeezed
    assert "[default: 0.003]" in squeezed


def test_what_is_no_run_is_refused_in_a_sentence(lossleuth: Command, tmp_path: Path) -> None:
    for verb in ("evaluate", "generate"):
        done = lossleuth(verb, tmp_path / "none")
        assert done.returncode == 2
        assert done.stderr.startswith("lossleuth: expected ")
        assert done.stderr.count("\n") == 1
