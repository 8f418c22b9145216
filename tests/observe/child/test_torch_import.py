"""Waiting for the script to import torch."""

from __future__ import annotations

import subprocess
import sys

from lossleuth.observe.child.torch_import import after_torch_import


def test_it_is_called_at_once_where_torch_is_there() -> None:
    called: list[int] = []
    after_torch_import(lambda: called.append(1))
    assert called == [1]


def test_it_is_called_after_the_import_and_not_when_somebody_only_asks_for_torch() -> None:
    program = """
import importlib.util, os, sys
from lossleuth.observe.child.torch_import import after_torch_import
def after():
    import torch
    print("after", hasattr(torch, "nn"), os.environ.get("MARK"))
finders = list(sys.meta_path)
after_torch_import(after)
assert importlib.util.find_spec("torch") is not None
print("asked", "torch" in sys.modules)
os.environ["MARK"] = "set before torch"
import torch
import torch
assert sys.meta_path == finders
assert type(torch.__loader__).__name__ == "SourceFileLoader"
"""
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert output == ["asked False", "after True set before torch"]
