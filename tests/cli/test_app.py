"""The command line itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import typer

from lossleuth import __version__
from lossleuth.cli import app
from lossleuth.cli.app import plainly

VERBS = [command.name or command.callback.__name__ for command in app.registered_commands]  # type: ignore[union-attr]  # typer always has one of the two
HEAVY = {"torch", "numpy", "rich", "safetensors", "tokenizers"}

Command = Callable[..., subprocess.CompletedProcess[str]]

LOADED = """
import sys
from collections.abc import Callable
from lossleuth.cli import main
sys.argv[1:] = {arguments!r}
try:
    main()
finally:
    print("modules:", *sorted(name for name in sys.modules if "." not in name))
"""


def answer(*arguments: str) -> tuple[str, set[str]]:
    """What a call prints, and the modules that it loaded."""
    program = LOADED.format(arguments=list(arguments))
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    text, _, modules = printed.rpartition("modules:")
    return text, set(modules.split())


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_answers_without_loading_anything_heavy(verb: str | None) -> None:
    text, loaded = answer(*([verb] if verb else []), "--help")
    assert "Usage: " in text
    assert "typer" in loaded
    assert HEAVY & loaded == set()


def test_the_version_is_printed(lossleuth: Command) -> None:
    assert lossleuth("--version").stdout.strip() == __version__


def test_an_unknown_verb_or_option_is_refused(lossleuth: Command) -> None:
    for arguments in (["tarin"], ["train", "--learning-rate", "1"], ["generate"]):
        result = lossleuth(*arguments)
        assert result.returncode == 2
        assert "Traceback" not in result.stderr


def test_a_closed_pipe_is_no_crash() -> None:
    command = f"{sys.executable} -m lossleuth doctor | true"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("failure", [MemoryError(), OSError(28, "No space", "a.bin")])
def test_what_the_machine_lacks_is_one_sentence(
    failure: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    @plainly
    def verb() -> None:
        raise failure

    with pytest.raises(typer.Exit) as ended:
        verb()
    assert ended.value.exit_code == 2
    said = capsys.readouterr().err
    assert said.startswith("lossleuth: expected ")
    assert said.count("\n") == 1


def test_a_character_that_the_encoding_lacks_is_no_crash() -> None:
    program = "import sys; from lossleuth import cli; cli.app = lambda: print('\u00b1'); cli.main()"
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert (result.returncode, result.stdout) == (0, "\\xb1\n")
