"""Where weights, tokens, targets and settings of a run came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from loops import read, watching
from torch.nn import functional as F


def traced(folder: Path, *, limit: float = 0.75) -> dict[str, Any]:
    """A run from files, and what is said of them."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 60, 4000).astype(np.uint16)
    tokens.tofile(folder / "tokens.bin")
    torch.manual_seed(1)
    donor = torch.nn.Sequential(torch.nn.Embedding(60, 8), torch.nn.Linear(8, 60))
    torch.save(donor.state_dict(), folder / "start.pt")
    (folder / "settings.yaml").write_text("seed: 3\npeak: 0.0125\nlimit: 0.75\nperiod: 40\n")
    files = [str(folder / name) for name in ("tokens.bin", "start.pt", "settings.yaml")]
    with watching(folder / "run") as observer:
        model = torch.nn.Sequential(torch.nn.Embedding(60, 8), torch.nn.Linear(8, 60))
        model.load_state_dict(torch.load(files[1]))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0125)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=40)
        data = torch.from_numpy(np.fromfile(files[0], np.uint16).astype(np.int64))
        for step in range(3):
            rows = torch.stack([data[i : i + 33] for i in range(100 * step, 100 * step + 40, 10)])
            scores = model(rows[:, :-1])
            loss = F.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
            schedule.step()
        observer.trace_origins(files)
    (event,) = read(folder / "run").events("origins")
    return event.data


def test_everything_is_traced_to_the_file_it_stands_in(tmp_path: Path) -> None:
    found = traced(tmp_path)
    assert set(found) == {"weights", "tokens", "targets", "settings", "freezing"}
    (weights,) = found["weights"]["files"]
    assert weights["file"] == str(tmp_path / "start.pt")
    assert found["tokens"]["file"] == str(tmp_path / "tokens.bin")
    assert found["targets"]["file"] == str(tmp_path / "tokens.bin")
    lines = {name: setting["line"] for name, setting in found["settings"].items()}
    assert lines == {"lr": 2, "clip": 3, "schedule": 4}


def test_a_setting_that_stands_in_no_file_has_no_origin(tmp_path: Path) -> None:
    assert "clip" not in traced(tmp_path, limit=0.6)["settings"]
