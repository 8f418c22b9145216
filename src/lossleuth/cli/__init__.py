"""The command line. Imports torch only inside the verbs that need it."""

from __future__ import annotations

import io
import sys

# In the order in which `--help` shows their verbs.
# isort: off
from lossleuth.cli import verdicts as verdicts
from lossleuth.cli import records as records
from lossleuth.cli import training as training
from lossleuth.cli import distilling as distilling
from lossleuth.cli import instruments as instruments
from lossleuth.cli.app import app

# isort: on


def main() -> None:
    """Entry point of the `lossleuth` command."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the output's encoding lacks is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
