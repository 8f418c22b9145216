"""The files of a run's directory, and what may happen to those that are already there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lossleuth.files import make_directory, replace_file
from lossleuth.record import strict_json
from lossleuth.reference.train import checkpoint as checkpoints
from lossleuth.reference.train import step_log
from lossleuth.reference.train.data import Tokens, save_tokens
from lossleuth.settings import Resolved
from lossleuth.types.errors import BadInput

OF_ANOTHER_RUN = (checkpoints.FILE_NAME, step_log.FILE_NAME)


def check_free(directory: Path) -> None:
    """Refuse a directory in which a run would be lost."""
    for name in OF_ANOTHER_RUN:
        if (directory / name).exists():
            raise BadInput(
                "a directory without a run",
                f"{name} in {directory}",
                "use --resume to continue it, --overwrite to replace it, or another --out",
            )


def begin(directory: Path, tokens: Tokens, resolved: Resolved[Any], *, resumed: bool) -> Tokens:
    """Write what a run starts with and return the tokens memory-mapped.

    The old run's checkpoint and record go, unless the run is that run resumed.
    """
    make_directory(directory)
    with naming(directory / "tokens.bin") as path:
        mapped = save_tokens(path, tokens)
    rows = {name: {"value": v, "source": s} for name, v, s in resolved.rows()}
    with naming(directory / "settings.json") as path, replace_file(path) as stream:
        stream.write(strict_json.dumps(rows, indent=1).encode())
    if not resumed:
        for name in OF_ANOTHER_RUN:
            (directory / name).unlink(missing_ok=True)
    return mapped


@contextmanager
def naming(path: Path) -> Iterator[Path]:
    """Turn a failure to write `path` into a sentence that names it.

    >>> with naming(Path("full.bin")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    ...
    lossleuth.types.errors.BadInput: expected room for full.bin, found No space left on device: \
make room or use another directory
    """
    try:
        yield path
    except OSError as error:
        older = "; the older one is whole" if path.exists() else ""
        raise BadInput(
            f"room for {path}",
            error.strerror or str(error),
            f"make room or use another directory{older}",
        ) from None
