"""What this machine has that lossleuth can use."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import lossleuth
from lossleuth.files import make_directory
from lossleuth.native.library import why_absent
from lossleuth.types.errors import BadInput

PACKAGES = (
    *("torch", "numpy", "safetensors", "rich", "typer", "tokenizers"),
    *("pyarrow", "tensorboard", "wandb", "mcp", "triton"),
)


def findings(runs: Path) -> Iterator[tuple[str, str]]:
    """Each item with what was found."""
    yield "lossleuth", lossleuth.__version__
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for package in PACKAGES:
        yield package, _version(package)
    yield "cores", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}"
    yield from _torch()
    absent = why_absent()
    yield "native kernels", "present" if absent is None else f"absent, using torch: {absent}"
    yield "compiler", shutil.which("g++") or "no g++: `lossleuth train --compile` does not work"
    yield "run directory", _run_directory(runs)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _torch() -> Iterator[tuple[str, str]]:
    try:
        import torch
    except Exception as error:  # a broken installation is a finding, not a crash
        yield "devices", f"torch cannot be imported: {error}"
        return
    yield "threads", f"{torch.get_num_threads()} per operation"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield "devices", ", ".join(["cpu", *names])


def _run_directory(runs: Path) -> str:
    existed = runs.exists()
    try:
        make_directory(runs)
    except BadInput as refusal:
        return str(refusal)
    if not existed and sys.platform != "win32":
        runs.rmdir()
    return f"{runs} is writable"
