"""The files of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small import SETTINGS

from lossleuth.reference.train.run_directory import begin, check_free, naming
from lossleuth.settings import Resolved
from lossleuth.types.errors import BadInput

TOKENS = np.arange(9, dtype="<u2")
RESOLVED = Resolved(SETTINGS, dict.fromkeys(SETTINGS.__dataclass_fields__, "test"))


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "record.jsonl"])
def test_a_directory_in_which_something_would_be_lost_is_not_free(
    tmp_path: Path, name: str
) -> None:
    check_free(tmp_path)
    check_free(tmp_path / "new")
    (tmp_path / name).touch()
    with pytest.raises(BadInput, match=f"a directory without a run, found {name} in"):
        check_free(tmp_path)


@pytest.mark.parametrize("resumed", [False, True])
def test_the_old_runs_files_go_unless_it_is_resumed(tmp_path: Path, resumed: bool) -> None:
    old = {"checkpoint.safetensors", "record.jsonl", "notes.txt"}
    for name in old:
        (tmp_path / name).touch()
    tokens = begin(tmp_path, TOKENS, RESOLVED, resumed=resumed)
    assert tokens.tolist() == TOKENS.tolist()
    assert isinstance(tokens, np.memmap)
    left = {path.name for path in tmp_path.iterdir()} - {"tokens.bin", "settings.json"}
    assert left == (old if resumed else {"notes.txt"})
    saved = json.loads((tmp_path / "settings.json").read_text())
    assert saved["lr"] == {"value": SETTINGS.lr, "source": "test"}


def test_a_failed_write_names_the_file_and_an_older_one_only_where_there_is_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.bin"
    with pytest.raises(BadInput) as first, naming(path):
        raise OSError(28, "No space left on device")
    assert f"room for {path}, found No space left on device" in str(first.value)
    assert "older" not in str(first.value)
    path.touch()
    with pytest.raises(BadInput, match="the older one is whole"), naming(path):
        raise OSError(28, "No space left on device")
