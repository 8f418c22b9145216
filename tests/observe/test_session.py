"""The owner of what a watch changes."""

from __future__ import annotations

import os
import threading
from types import ModuleType
from typing import Any

import pytest

from lossleuth.observe.session import Session


class Base:
    def method(self) -> str:
        return "base"


class Derived(Base):
    @classmethod
    def made(cls) -> str:
        return cls.__name__


def test_all_is_given_back_last_first() -> None:
    session, done = Session(), list[str]()
    session.on_close(lambda: done.append("first"))
    session.on_close(lambda: done.append("last"))
    session.close()
    session.close()
    assert done == ["last", "first"]


def test_inherited_methods_and_class_methods_are_put_back_as_they_stood() -> None:
    session, stands = Session(), vars(Derived)["made"]
    session.replace(Derived, "method", lambda _: "ours")
    session.replace(Derived, "made", lambda: "ours")
    assert Derived().method() == Derived.made() == "ours"
    session.close()
    assert "method" not in vars(Derived)
    assert vars(Derived)["made"] is stands
    assert Derived.made() == "Derived"


def test_functions_of_modules_are_known_for_those_who_hold_them_by_name() -> None:
    session, module = Session(), ModuleType("some")
    original = module.function = lambda: "theirs"  # type: ignore[attr-defined]  # made here
    session.replace(module, "function", len)
    session.replace(Derived, "method", len)
    assert session.replaced == [(original, len)]
    session.close()
    assert session.replaced == []


def test_what_cannot_be_undone_does_not_keep_the_rest() -> None:
    session, done = Session(), list[str]()
    session.on_close(lambda: done.append("still"))

    def fail() -> None:
        raise KeyError("gone")

    session.on_close(fail)
    with pytest.raises(KeyError):
        session.close()
    assert done == ["still"]


def test_a_patch_that_fails_is_named_and_the_next_is_applied() -> None:
    session, done = Session(), list[str]()

    def fail() -> None:
        raise AttributeError("no such function")

    session.attempt("clipping", fail)
    session.attempt("reads", lambda: done.append("reads"))
    assert session.missing == {"clipping": "AttributeError: no such function"}
    assert session.failures.count == 1
    assert done == ["reads"]


def test_what_is_ours_in_one_thread_is_the_programs_in_another() -> None:
    session, seen = Session(), list[Any]()
    with session.ours():
        thread = threading.Thread(target=lambda: seen.append(session.is_ours))
        thread.start()
        thread.join()
        assert session.is_ours
    assert seen == [False]
    assert not session.is_ours


def test_a_forked_process_is_left_as_it_was() -> None:
    session = Session()
    session.replace(Derived, "method", lambda _: "ours")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, Derived().method().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"base"
    assert Derived().method() == "ours"
    session.close()
    for end in (reader, writer):
        os.close(end)
