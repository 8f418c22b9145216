"""Programs run uncompiled while they are recorded, and compiled afterwards."""

from __future__ import annotations

import pytest
import torch

from lossleuth.tape.capture.compiler_off import CompilerOff
from lossleuth.tape.capture.recorder import Recorder


def runs_compiled() -> bool:
    """Whether a function that has to be compiled is."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x

    torch._dynamo.reset()
    whole = torch.compile(program, backend="eager", fullgraph=True)
    return bool(whole(torch.zeros(1)).item())


def test_a_function_that_has_to_be_compiled_runs_while_it_is_recorded() -> None:
    assert runs_compiled()
    recorder = Recorder(0)
    recorder.start()
    try:
        assert not runs_compiled()
    finally:
        recorder.stop()
    assert runs_compiled()


def test_the_last_who_wants_it_gives_it_back() -> None:
    stance = CompilerOff()
    stance.acquire()
    stance.acquire()
    stance.release()
    assert not runs_compiled()
    stance.release()
    assert runs_compiled()


def test_what_the_program_wanted_of_the_compiler_comes_back() -> None:
    stance = CompilerOff()
    with torch.compiler.set_stance("force_eager"):
        stance.acquire()
        stance.release()
        assert not runs_compiled()
    assert runs_compiled()


def the_stance() -> str:
    return str(torch._dynamo.eval_frame._stance.stance)


def test_what_the_program_takes_meanwhile_holds_afterwards() -> None:
    stance = CompilerOff()
    stance.acquire()
    theirs = torch.compiler.set_stance("eager_on_recompile")
    assert the_stance() == "force_eager"
    stance.release()
    assert the_stance() == "eager_on_recompile"
    theirs.__exit__(None, None, None)
    assert the_stance() == "default"
    assert runs_compiled()


def test_a_block_of_the_programs_ends_as_it_would_without_us() -> None:
    stance = CompilerOff()
    stance.acquire()
    with torch.compiler.set_stance("eager_on_recompile"):
        stance.release()
        assert the_stance() == "eager_on_recompile"
        stance.acquire()
    assert the_stance() == "force_eager"
    assert not runs_compiled()
    stance.release()
    assert the_stance() == "default"


def test_where_there_are_no_stances_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._dynamo.decorators, "_set_stance")
    stance = CompilerOff()
    stance.acquire()
    assert runs_compiled()
    stance.release()
