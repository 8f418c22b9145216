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
from lossleuth.cli.app import Group, with_plain_errors

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


def test_help_shows_every_verb_once_in_its_group_and_run_first(lossleuth: Command) -> None:
    text = lossleuth("--help").stdout
    _, *sections = text.partition("Options:")[2].split("\n\n")
    shown = {}
    for section in sections:
        heading, *rows = section.strip().splitlines()
        shown[heading.removesuffix(":")] = [row.split()[0] for row in rows]
    assert list(shown) == [group.value for group in Group]
    visible = [
        command.name or command.callback.__name__  # type: ignore[union-attr]  # typer always has one of the two
        for command in app.registered_commands
        if not command.hidden
    ]
    assert sorted(verb for verbs in shown.values() for verb in verbs) == sorted(visible)
    assert next(iter(shown.values()))[0] == "run"


def test_each_verb_is_described_in_one_whole_line_of_80_columns(lossleuth: Command) -> None:
    text = lossleuth("--help").stdout
    assert "..." not in text.partition("Options:")[2]
    assert max(map(len, text.splitlines())) <= 80


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


def said_of(failure: BaseException, capsys: pytest.CaptureFixture[str]) -> str:
    """What a verb that fails so writes on stderr."""

    @with_plain_errors
    def verb() -> None:
        raise failure

    with pytest.raises(typer.Exit) as ended:
        verb()
    assert ended.value.exit_code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (MemoryError(), "out of memory: use a smaller batch, model or --rows"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
            "out of memory: use a smaller batch, model or --rows",
        ),
        (
            OSError(28, "No space", "a.bin"),
            "could not read or write a.bin: No space; check the disk and the path",
        ),
        (KeyboardInterrupt(), "interrupted; everything saved so far is intact"),
    ],
)
def test_what_the_machine_lacks_is_one_sentence(
    failure: BaseException, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_of(failure, capsys) == f"lossleuth: {sentence}\n"


def test_a_bug_of_ours_is_called_one_and_leaves_its_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = said_of(RuntimeError("a wrong turn"), capsys)
    assert said.startswith("Traceback")
    assert said.splitlines()[-1].startswith(
        "lossleuth: internal error, a bug in lossleuth: RuntimeError('a wrong turn')"
    )


@pytest.mark.parametrize("ending", [typer.Exit(1), typer.BadParameter("x")])
def test_a_verb_may_end_as_it_likes(ending: Exception) -> None:
    @with_plain_errors
    def verb() -> None:
        raise ending

    with pytest.raises(type(ending)) as ended:
        verb()
    assert ended.value is ending


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
