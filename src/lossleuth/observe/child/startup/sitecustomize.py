"""Python runs this at start-up: watch the process, then run the sitecustomize that it hides."""

import importlib.util
import os
import sys
from pathlib import Path


def _run_the_one_behind() -> None:
    """The environment may have a sitecustomize of its own; it must not be lost."""
    here = Path(__file__).parent.resolve()
    for folder in sys.path:
        candidate = Path(folder or ".") / "sitecustomize.py"
        if candidate.is_file() and candidate.parent.resolve() != here:
            spec = importlib.util.spec_from_file_location("sitecustomize", candidate)
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
            return


if "LOSSLEUTH_WATCH" in os.environ:
    try:
        from lossleuth.observe.child.watch import start_from_environment

        start_from_environment()
    except Exception as error:
        print(f"lossleuth: this process is not watched: {error!r}", file=sys.stderr)
_run_the_one_behind()
