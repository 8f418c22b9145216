"""Settings and the source of each value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from lossleuth.settings import resolve, setting
from lossleuth.types.errors import BadInput


@dataclass(frozen=True)
class Example:
    """Settings of every type."""

    files: tuple[str, ...] = setting((), "files")
    steps: int = setting(10, "steps", minimum=1)
    size: int | None = setting(None, "size", minimum=1)
    rate: float = setting(0.5, "rate", above=0, maximum=1)
    tied: bool = setting(True, "tied")
    kind: str = setting("a", "kind", choices=("a", "b"))


def toml(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text)
    return path


def test_an_option_beats_the_file_which_beats_the_checkpoint_which_beats_the_default(
    tmp_path: Path,
) -> None:
    file = toml(tmp_path, "steps = 2\nrate = 0.25")
    resolved = resolve(
        Example,
        options={"steps": 1, "kind": None},
        file=file,
        saved={"steps": 3, "rate": 0.75, "tied": False},
    )
    assert resolved.rows() == [
        ("files", (), "default"),
        ("steps", 1, "option --steps"),
        ("size", None, "default"),
        ("rate", 0.25, f"file {file}"),
        ("tied", False, "checkpoint"),
        ("kind", "a", "default"),
    ]


def test_a_whole_number_is_a_number_and_a_list_a_tuple(tmp_path: Path) -> None:
    file = toml(tmp_path, 'rate = 1\nfiles = ["x"]\nsize = 3')
    values = resolve(Example, options={}, file=file).values
    assert values == Example(files=("x",), rate=1.0, size=3)
    assert isinstance(values.rate, float)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps = 0", "a value of at least 1 for steps, found 0"),
        ("steps = true", "a whole number for steps, found True"),
        ("steps = 1.5", "a whole number for steps, found 1.5"),
        ("rate = 0", "a value above 0 for rate"),
        ("rate = 2", "a value of at most 1 for rate"),
        ("rate = nan", "a finite number for rate, found nan"),
        ("rate = inf", "a finite number for rate, found inf"),
        ("rate = 1" + "0" * 400, "a finite number for rate, found 1000"),
        ("size = 9223372036854775808", "a whole number below 2**63 for size, found 9223"),
        ("size = " + "9" * 5000, "TOML"),
        ('files = ["a\\u0000b"]', "text in UTF-8 without NUL for files"),
        ("rate = " + "[" * 100_000, "TOML"),
        ('kind = "c"', "one of a, b for kind, found 'c'"),
        ("kind = 1", "a string for kind"),
        ("tied = 1", "true or false for tied"),
        ('files = "x"', "a list of strings for files"),
        ('size = "x"', "a whole number for size"),
        ("stepz = 1", "only known settings, found 'stepz'"),
        ("steps = = 1", "TOML"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_source(
    tmp_path: Path, text: str, expected: str
) -> None:
    file = toml(tmp_path, text)
    with pytest.raises(BadInput) as refusal:
        resolve(Example, options={}, file=file)
    assert expected in str(refusal.value)
    assert str(file) in str(refusal.value)


def test_a_misspelled_key_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did you mean steps"):
        resolve(Example, options={}, file=toml(tmp_path, "step = 1"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.toml: No such file"):
        resolve(Example, options={}, file=tmp_path / "none.toml")


def test_a_key_of_another_release_is_refused() -> None:
    with pytest.raises(BadInput, match="'gone' in the checkpoint"):
        resolve(Example, options={}, saved={"gone": 1})


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BadInput, match="text in UTF-8 without NUL for files") as refusal:
        resolve(Example, options={"files": ["\udcff.txt"]})
    assert str(refusal.value).isascii()


def test_what_is_not_finite_is_refused_with_what_the_setting_means() -> None:
    with pytest.raises(BadInput, match=r"finite number for rate, found inf: .* it means: rate"):
        resolve(Example, options={"rate": math.inf})


def test_a_long_value_is_shown_by_its_beginning() -> None:
    with pytest.raises(BadInput) as refusal:
        resolve(Example, options={"size": 10**300})
    assert len(str(refusal.value)) < 200
