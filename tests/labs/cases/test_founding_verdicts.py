"""The five founding cases from end to end: true causes proven in place, blamed ones refuted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lossleuth.labs.cases.stories import STORIES, Story, story

# A place is right within so many lines of one of the faults.
NEAR = 2
# Enough for the trials on a machine that is busy with others.
BUDGET = "600"
# What is named instead of the faulty line. Weights that nobody has filled: what trains them. A
# gradient that is made by hand: the line that uses it, as there is no backward pass. A number that
# Python computes: the line that reads what it is made of.
NAMED_BY_USE = {
    ("constant_loss", "dead_network"): "optimizer = torch.optim.Adam",
    ("constant_loss", "loss_disconnected"): "optimizer.step()",
    ("run_three", "perplexity_of_total"): "totals = [kd_weight * kd.item()",
}


def verdict_on(of: Story, out: Path, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `lossleuth run` says of the program."""
    command = [sys.executable, "-m", "lossleuth", "run", "--budget", BUDGET, *options]
    command += ["--out", str(out)]
    done = subprocess.run([*command, str(of.script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return dict(json.loads((out / "verdict.json").read_text()))


def check_place(of: Story, cause: str, where: dict[str, Any]) -> None:
    """It is near the fault, or what stands for it."""
    used = NAMED_BY_USE.get((of.name, cause))
    if used is not None:
        lines = of.script.read_text("utf-8").splitlines()
        assert where["file"] == str(of.script)
        assert used in lines[where["line"] - 1]
        return
    faults = [fault for fault in of.faults if fault.cause == cause]
    assert any(
        where["file"] == str(fault.path) and abs(where["line"] - fault.line()) <= NEAR
        for fault in faults
    ), (cause, where)


@pytest.mark.slow
@pytest.mark.parametrize("of", STORIES, ids=lambda s: s.name)
def test_true_causes_are_proven_and_blamed_ones_refuted(tmp_path: Path, of: Story) -> None:
    found = verdict_on(of, tmp_path / "out")
    proven = {cause["id"]: cause for cause in found["causes"] if cause["status"] == "proven"}
    assert set(of.causes) <= set(proven)
    assert not set(of.blamed) & set(proven)
    for cause in of.causes:
        check_place(of, cause, proven[cause]["where"])
    statuses = {blamed: found["details"][blamed]["status"] for blamed in of.blamed}
    assert set(statuses.values()) == {"refuted"}, [found["details"][b] for b in of.blamed]
    assert found["errored"] == []


@pytest.mark.slow
def test_a_dead_network_is_to_be_fixed_before_the_loss(tmp_path: Path) -> None:
    found = verdict_on(story("constant_loss"), tmp_path / "out")
    assert [cause["id"] for cause in found["causes"]] == ["dead_network", "loss_disconnected"]


def test_of_a_dead_network_the_rate_is_refuted_at_once(tmp_path: Path) -> None:
    only = ("--only", "dead_network", "--only", "lr_too_low", "--only", "lr_too_high")
    options = ("--steps", "12", "--no-trials", *only)
    found = verdict_on(story("constant_loss"), tmp_path / "out", options)
    assert [cause["id"] for cause in found["causes"]] == ["dead_network"]
    assert found["refuted"] == ["lr_too_high", "lr_too_low"]
    assert "exactly 0 at each of 12 steps" in found["details"]["lr_too_low"]["because"]
