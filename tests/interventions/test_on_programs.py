"""Changes of no dose, on programs of every make: the losses are the same to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.observe.launch.executor import Background, RunSpec
from lossleuth.observe.launch.program import Program
from lossleuth.record.read import Record
from lossleuth.types.change import Change

PROGRAMS = Path(__file__).parents[1] / "programs"
NULL = (
    Change.of("scale_lr", factor=1.0),
    Change.of("scale_gradient", factor=1.0),
    Change.of("clear_gradients"),
    Change.of("add_missing_parameters"),
    Change.of("unfreeze_parameters"),
    Change.of("stretch_schedule", factor=1),
    Change.of("clip_gradients", norm=1e30),
    Change.of("cap_epsilon", value=1e30),
    Change.of("cap_lr", rate=1e30),
)
# Every step is recorded and looked through, and nothing is found to change.
NULL_ON_TAPE = (Change.of("shift_labels", offset=0),)
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem != "tiny")
CASES = [
    *((name, NULL) for name in NAMES),
    # Of a compiled program, some losses are only known where every step is recorded.
    *((name, NULL_ON_TAPE) for name in NAMES if name != "compiled"),
]


def losses(folder: Path) -> list[float]:
    with Record.open(folder) as record:
        assert record.ended is not None
        assert record.ended["how"] == "end of script"
        assert "failures" not in record.ended
        known = "loss" in record.scalar_names
        return [float(x) for x in record.series("loss")] if known else [len(record)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    CASES,
    ids=[name if changes is NULL else f"{name} on tape" for name, changes in CASES],
)
def test_a_change_of_no_dose_changes_no_bit(
    name: str, changes: tuple[Change, ...], tmp_path: Path
) -> None:
    plans = [
        RunSpec(tmp_path / "bare", 100, 60.0, loss_steps=(0,)),
        RunSpec(tmp_path / "null", 100, 60.0, loss_steps=(0,), changes=changes),
    ]
    Background(Program(PROGRAMS / f"{name}.py"), 2).run(plans)
    bare = losses(tmp_path / "bare")
    assert bare
    assert losses(tmp_path / "null") == bare
