"""TensorBoard reads what was exported, with its own reader."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from recorded import never, run_script, write_small

from lossleuth.record.export_tensorboard import FILE_NAME, as_float32, export_tensorboard
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, 3.4e38, -3.5e38, 1e300, 10**400, 5e-324])
def test_a_number_is_rounded_as_float32_is(value: float) -> None:
    found = as_float32(value)
    with np.errstate(all="ignore"):
        expected = np.float32(value if isinstance(value, float) else math.inf)
    assert found is not None
    assert np.float32(found).tobytes() == expected.tobytes()


def test_the_event_file_reads_back_and_needs_no_torch(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write_small(tmp_path / "run")
    export_tensorboard(Record.open(tmp_path / "run"), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [FILE_NAME]
    events = loader.EventAccumulator(str(tmp_path / "out"), size_guidance={"scalars": 0})
    events.Reload()
    tags = {
        tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }
    assert tags["loss"][0] == (0, 2.5)
    assert math.isnan(tags["loss"][1][1])
    assert tags["loss"][2] == (-3, -math.inf)
    assert tags["norm/lora"] == [(1, 9.0), (-3, 3.0)]
    assert tags["ok"] == [(1, 1.0)]
    assert "norms" not in tags
    program = """
import sys
from pathlib import Path
from lossleuth.record.export import export
from lossleuth.record.read import Record
export(Record.open(sys.argv[1]), "tensorboard", Path(sys.argv[2]))
print("torch" in sys.modules, "tensorflow" in sys.modules)
"""
    result = run_script(program, tmp_path / "run", tmp_path / "again")
    assert result.stdout.split() == ["False", "False"], result.stderr


def test_the_clock_is_the_scalar_called_time(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = RecordWriter.create(tmp_path / "run", {}, never)
    writer.step({"step": 0, "loss": 1e300, "time": 1.7e9}, None)
    writer.step({"step": 1, "loss": 1.0, "time": math.nan}, None)
    export_tensorboard(Record.open(tmp_path / "run"), tmp_path / "out")
    events = loader.EventAccumulator(str(tmp_path / "out"))
    events.Reload()
    found = [(e.wall_time, e.value) for e in events.Scalars("loss")]
    assert found == [(1.7e9, math.inf), (0.0, 1.0)]
