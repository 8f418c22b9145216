"""Whose code is at work."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
import torch

import lossleuth
from lossleuth import places


@pytest.fixture(autouse=True)
def _undeclared() -> Iterator[None]:
    yield
    places._declared.clear()
    places.is_library.cache_clear()


def test_python_packages_and_lossleuth_are_libraries_and_the_rest_is_the_users() -> None:
    assert places.is_library(json.__file__)
    assert places.is_library(torch.__file__)
    assert places.is_library(lossleuth.__file__)
    assert places.is_library("<frozen importlib._bootstrap>")
    assert not places.is_library(__file__)
    assert not places.is_library("<stdin>")


def test_packages_that_are_only_linked_to_are_libraries_too() -> None:
    assert places.is_library("/elsewhere/lib/python3.11/site-packages/torch/optim/adam.py")
    assert not places.is_library("/mine/site-packages-notes/train.py")


def test_a_script_that_lies_in_a_package_is_the_users_when_it_is_run() -> None:
    inside = str(torch.__file__).replace("__init__", "example")
    assert places.is_library(inside)
    places.declare_user_file(inside)
    assert not places.is_library(inside)


def test_the_innermost_line_of_the_user_is_found() -> None:
    place = places.user_place(sys._getframe())
    assert place is not None
    assert place.startswith(__file__)


def test_a_read_by_a_library_is_not_the_users() -> None:
    found: list[str | None] = []
    json.dumps({"x": 1}, default=None, cls=None)

    class Encoder(json.JSONEncoder):
        def default(self, value: object) -> object:
            found.append(places.reading_place(sys._getframe()))
            return None

    json.dumps(object(), cls=Encoder)
    assert found[0] is not None
    library: dict[str, object] = {}
    code = (
        "import sys\nfrom lossleuth import places\n"
        "def read(): return places.reading_place(sys._getframe())"
    )
    exec(compile(code, json.__file__, "exec"), library)
    assert library["read"]() is None  # type: ignore[operator]  # defined by the code above


def test_a_project_beside_a_library_folder_is_the_users() -> None:
    folder = places.LIBRARY_FOLDERS[0].rstrip("/")
    assert places.is_library(f"{folder}/module.py")
    assert not places.is_library(f"{folder}-project/train.py")
